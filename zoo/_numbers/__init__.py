"""Arrays of any kind, checked once; columns of rows; rows of several models in one order."""
