"""What ``flwr run`` starts: the two halves of scfl's Flower app, with the record of a study.

[tool.flwr.app.components]
serverapp = "scfl.app:server"
clientapp = "scfl.app:client"
"""

from __future__ import annotations

from scfl.runtime.flower.client import make_client_app
from scfl.runtime.flower.server import make_server_app
from scfl.study.network import Progress, record_network

server = make_server_app(watch=Progress(), record=record_network)
client = make_client_app()
