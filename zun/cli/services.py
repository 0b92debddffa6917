"""Console scripts of processes: zun-api, zun-compute, zun-wsproxy; each reads zun.conf as oslo.config does."""

from __future__ import annotations

import sys

from zun.cli.problem import told


def api() -> None:
    """zun-api: the REST API, scheduler and reaper."""
    _serve("zun-api", api=True, compute=False)


def compute() -> None:
    """zun-compute: the agent of this node."""
    _serve("zun-compute", api=False, compute=True)


def wsproxy() -> None:
    """zun-wsproxy: where browsers and terminals open their sessions with containers."""
    from zun import conf as configuration
    from zun.cli.preflight import require_port
    from zun.cli.process import run_proxy

    with told():
        conf = configuration.load(sys.argv[1:], prog="zun-wsproxy")
        section = conf.websocket_proxy
        require_port(section.wsproxy_host, section.wsproxy_port, "[websocket_proxy]/wsproxy_port in zun.conf")
        run_proxy(conf)


def _serve(prog: str, *, api: bool, compute: bool) -> None:
    from zun import conf as configuration
    from zun.cli.preflight import require_engine, require_port
    from zun.cli.process import run_process

    with told():
        conf = configuration.load(sys.argv[1:], prog=prog)
        if api:
            require_port(conf.api.host_ip, conf.api.port)
        if compute and conf.container_driver == "docker":
            require_engine(conf.docker.api_url)
        run_process(conf, api=api, compute=compute)
