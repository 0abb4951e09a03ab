"""Tables and figures of the two papers, from any models: `zoo figure KEY MODELS`. Each module registers its figures."""

from zoo.app.figures import behaviour as behaviour
from zoo.app.figures import layers as layers
from zoo.app.figures import predictions as predictions
from zoo.app.figures import separation as separation
from zoo.app.figures import together as together
from zoo.app.figures import transfer as transfer
from zoo.app.figures.record import FIGURES as FIGURES
from zoo.app.figures.record import PAPERS as PAPERS
from zoo.app.figures.record import Figure as Figure
from zoo.app.figures.record import find as find
from zoo.app.figures.result import Result as Result
from zoo.app.figures.shapes import sized as sized
from zoo.app.figures.study import Study as Study
from zoo.app.figures.study import at_hand as at_hand
