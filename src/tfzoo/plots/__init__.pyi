from .confusion import confusion_figure as confusion_figure
from .curves import curves_figure as curves_figure
from .curves import read_runs as read_runs
from .position import position_figure as position_figure
