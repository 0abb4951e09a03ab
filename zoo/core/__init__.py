"""Reading and writing files so that nothing is lost, run or believed that should not be."""
