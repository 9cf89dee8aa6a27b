"""`marshal controller`: runs a controller of groups until it is stopped."""

from __future__ import annotations

import logging
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kafka_marshal.cli.common import (
    Bootstrap,
    Options,
    Properties,
    Stop,
    connection,
    console,
    errors,
    fail,
    keyring_of,
    needs,
    one_sentence,
)
from kafka_marshal.errors import COORDINATION_TOPIC, MarshalError

if TYPE_CHECKING:
    from kafka_marshal.client.observe.controller_observers import ControllerObserver
    from kafka_marshal.client.observe.observers import Observer

_EVERYWHERE: Final = ("0.0.0.0", "[::]")  # noqa: S104  # only named here
_FILES_BESIDE: Final = 200
"""Open files that are no connections of clients: brokers, libraries."""


def controller(
    *,
    bootstrap: Bootstrap = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The address to listen on.")
    ] = "127.0.0.1:9393",
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            show_default="--listen",
            help="The address by which clients and other controllers reach it.",
        ),
    ] = None,
    client_id: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default="--advertise",
            help="Its name across restarts. No other process may have the same name.",
        ),
    ] = None,
    topic: Annotated[
        str, typer.Option(metavar="TOPIC", help="The log of groups.")
    ] = "__marshal_groups",
    coordination_topic: Annotated[
        str,
        typer.Option(
            metavar="TOPIC", help="The coordination topic, in which controllers claim partitions."
        ),
    ] = COORDINATION_TOPIC,
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Its certificate, in PEM."),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="The certificate's key, in PEM."),
    ] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Accept only clients whose certificate this CA signed.",
        ),
    ] = None,
    tls_permissions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Which certificates may use which groups, in TOML.",
        ),
    ] = None,
    tls_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="--tls-client-ca",
            help="The CA that signed the certificates of other controllers.",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            show_default=False,
            help="Serve metrics for Prometheus, at /metrics.",
        ),
    ] = None,
    spans: Annotated[
        bool,
        typer.Option(
            "--spans",
            help="Create OpenTelemetry spans: one for each request, and one for each partition "
            "that it takes over.",
        ),
    ] = False,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="Serve even partitions whose log lost its beginning and holds no snapshot. "
            "Their groups and positions are lost.",
        ),
    ] = False,
    properties: Properties = None,
    options: Options = None,
) -> None:
    """Run a controller of groups, until Ctrl-C or SIGTERM.

    Any number of controllers may run. They share the partitions of the log, and each takes over the
    partitions of one that ends. Missing topics are created. It prints its address on standard
    output as soon as it accepts clients. When it is stopped, it answers the requests whose events
    are in the log, and releases its claims.

    Without TLS, anybody who reaches the port may use all groups.

    Exits 0 after a stop, 2 if it could not run or continue, or if a second signal ended it.
    """
    with needs("kafka"):
        import attrs

        from kafka_marshal.client.groups.connection import Address
        from kafka_marshal.client.groups.controller import ControllerOptions, ControllerService
        from kafka_marshal.client.groups.permissions import permissions_of
        from kafka_marshal.client.groups.port import REFUSED_MAX, PortLimits
        from kafka_marshal.client.groups.tls import client_context, server_context
        from kafka_marshal.client.observe.controller_metrics import PrometheusControllerObserver
        from kafka_marshal.client.observe.metrics import PrometheusObserver
    if (tls_cert is None) is not (tls_key is None):
        fail("--tls-cert and --tls-key must be given together")
    if tls_cert is None and (tls_client_ca or tls_ca) is not None:
        fail("--tls-client-ca and --tls-ca need --tls-cert and --tls-key")
    if tls_permissions is not None and tls_client_ca is None:
        fail("--tls-permissions needs --tls-client-ca: otherwise clients show no certificate")
    with one_sentence(MarshalError):
        host, _, port = listen.rpartition(":")
        if advertise is None and host in _EVERYWHERE:
            fail(f"--listen {listen} is no address that clients can connect to: add --advertise")
        if port != "0":
            Address.parsed(listen, "--listen")
        tls = to_others = None
        if tls_cert is not None and tls_key is not None:
            tls = server_context(tls_cert, tls_key, tls_client_ca)
            to_others = client_context(tls_ca or tls_client_ca, tls_cert, tls_key)
        permissions = None if tls_permissions is None else permissions_of(tls_permissions)
        settings = attrs.evolve(
            connection(bootstrap, properties, options), keyring=keyring_of(None)
        )
        logging.basicConfig(
            level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
        )
        observers: list[ControllerObserver] = []
        claim_observers: list[Observer] = []
        if metrics is not None:
            counted = PrometheusControllerObserver()
            counted.serve(metrics)
            observers.append(counted)
            claim_observers.append(PrometheusObserver())
        if spans:
            with needs("otel"):
                from kafka_marshal.client.observe.controller_tracing import (
                    OpenTelemetryControllerObserver,
                )
            observers.append(OpenTelemetryControllerObserver())
        running = ControllerService(
            settings,
            ControllerOptions(
                host=host.removeprefix("[").removesuffix("]"),
                port=int(port),
                advertised=None if advertise is None else Address.parsed(advertise, "--advertise"),
                client_id=client_id or "",
                topic=topic,
                coordination_topic=coordination_topic,
                limits=PortLimits(
                    connections_max=_connections_max(PortLimits().connections_max, REFUSED_MAX)
                ),
                tls=tls,
                permissions=permissions,
                tls_to_others=to_others,
                forget=forget,
            ),
            observers,
            claim_observers,
        )
        stop = Stop(
            first="stopping: giving the claims back; a second Ctrl-C ends it at once",
            second="its claims become stale, and others take over after 2 s",
            waits=False,
        )
        running.run(stop, lambda *at: console.print(str(Address(*at)), markup=False))


def _connections_max(wanted: int, refused: int) -> int:
    """How many connections the process may have; the limit of open files is raised for that.

    Beside them there are some that are being refused.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    beside = refused + _FILES_BESIDE
    needed = wanted + beside
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft != resource.RLIM_INFINITY and soft < needed:
        wanted = max(1, soft - beside)
        errors.print(f"Note: the limit of open files allows {wanted:,} connections")
    return wanted
