from slidestat.declare.alerts import Alert as Alert
from slidestat.declare.forms.files import load_topology as load_topology
from slidestat.declare.rankings import Ranking as Ranking
from slidestat.declare.referee import Referee as Referee
from slidestat.declare.slos import Slo as Slo
from slidestat.declare.statistics import *
from slidestat.declare.topology import Topology as Topology
from slidestat.errors import SlidestatError as SlidestatError
from slidestat.frames import over as over
from slidestat.testing.driver import (
    RefereeDriver as RefereeDriver,
    TopologyDriver as TopologyDriver,
)
