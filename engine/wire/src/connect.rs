//! Opening connections: names resolved once, every address tried, sockets set up for small packets and dead peers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_service::Service;
use actix_tls::connect::{ConnectError, ConnectInfo, Connection};
use agentx_types::{ErrorClass, Nanos, RunClock};
use awc::http::Uri;
use futures_core::future::LocalBoxFuture;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

use crate::fault::Fault;
use crate::io::{Connections, Io, Totals};
use crate::probe::Probe;

/// Idle time before keep-alive probes, and time between them.
const PROBE_AFTER: Duration = Duration::from_mins(1);
const PROBE_EVERY: Duration = Duration::from_secs(10);

/// The client's connector.
#[derive(Clone)]
pub(crate) struct Connector(Rc<Shared>);

struct Shared {
    clock: RunClock,
    user_timeout: Duration,
    names: RefCell<BTreeMap<(String, u16), Rc<Name>>>,
    connections: Rc<Connections>,
    totals: Rc<Totals>,
}

/// A host and port with its addresses.
#[derive(Default)]
struct Name {
    addresses: OnceCell<Vec<SocketAddr>>,
    /// The address that worked last, tried first.
    preferred: Cell<usize>,
}

impl Connector {
    pub(crate) fn new(
        clock: RunClock,
        user_timeout: Duration,
        connections: Rc<Connections>,
        totals: Rc<Totals>,
    ) -> Self {
        Self(Rc::new(Shared { clock, user_timeout, names: RefCell::default(), connections, totals }))
    }
}

impl Service<ConnectInfo<Uri>> for Connector {
    type Response = Connection<Uri, Io>;
    type Error = ConnectError;
    type Future = LocalBoxFuture<'static, Result<Self::Response, ConnectError>>;

    fn poll_ready(&self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&self, info: ConnectInfo<Uri>) -> Self::Future {
        let shared = Rc::clone(&self.0);
        let uri = info.request().clone();
        Box::pin(async move {
            let probe = Probe::with(Rc::clone);
            match shared.connect(&uri, probe.as_deref()).await {
                Ok(stream) => Ok(Connection::new(uri, stream)),
                Err(fault) => {
                    let message = fault.message.clone();
                    if let Some(probe) = probe {
                        *probe.connect_fault.borrow_mut() = Some(fault);
                    }
                    Err(ConnectError::Io(io::Error::other(message)))
                }
            }
        })
    }
}

impl Shared {
    async fn connect(&self, uri: &Uri, probe: Option<&Probe>) -> Result<Io, Fault> {
        let start = self.clock.now();
        let host = uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        if let Some(probe) = probe {
            probe.connect_start.set(Some(start));
        }
        let name = Rc::clone(self.names.borrow_mut().entry((host.to_owned(), port)).or_default());
        let looked_up = name.addresses.get().is_none() && host.parse::<IpAddr>().is_err();
        let addresses = name.addresses.get_or_try_init(|| resolve(host, port)).await?;
        if let (Some(probe), true) = (probe, looked_up) {
            probe.dns.set(self.clock.now() - start);
        }

        let mut failures: Vec<(SocketAddr, io::Error)> = Vec::new();
        for attempt in 0..addresses.len() {
            let index = (name.preferred.get() + attempt) % addresses.len();
            match TcpStream::connect(addresses[index]).await {
                Ok(stream) => {
                    name.preferred.set(index);
                    self.set_up(&stream);
                    if let Some(probe) = probe {
                        probe.tcp_connected.set(true);
                    }
                    return Ok(self.connections.open(stream, &self.totals));
                }
                Err(error) => failures.push((addresses[index], error)),
            }
        }
        Err(refused(host, port, &failures))
    }

    /// Options of a new socket. A system that lacks one of them is no reason to fail.
    fn set_up(&self, stream: &TcpStream) {
        let keepalive = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY);
        let socket = SockRef::from(stream);
        let results = [
            stream.set_nodelay(true),
            socket.set_tcp_keepalive(&keepalive),
            #[cfg(target_os = "linux")]
            socket.set_tcp_user_timeout(Some(self.user_timeout)),
        ];
        for error in results.into_iter().filter_map(Result::err) {
            tracing::debug!(%error, "a socket option was not set");
        }
    }
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, Fault> {
    let what_to_do = "check target.urls and the machine's name resolution";
    let found = tokio::net::lookup_host((host, port))
        .await
        .map_err(|error| Fault::new(ErrorClass::Dns, format!("cannot resolve host `{host}`: {error}; {what_to_do}")))?;
    let addresses: Vec<SocketAddr> = found.collect();
    if addresses.is_empty() {
        return Err(Fault::new(ErrorClass::Dns, format!("host `{host}` has no address; {what_to_do}")));
    }
    Ok(addresses)
}

fn refused(host: &str, port: u16, failures: &[(SocketAddr, io::Error)]) -> Fault {
    let class = match failures.last().map(|(_, error)| error) {
        Some(error) if error.kind() == io::ErrorKind::TimedOut => ErrorClass::ConnectTimeout,
        Some(error) if is_local(error) => ErrorClass::RequestBuild,
        _ => ErrorClass::ConnectRefused,
    };
    let tried: Vec<String> = failures.iter().map(|(address, error)| format!("{address}: {error}")).collect();
    let hint =
        if class == ErrorClass::RequestBuild { "; this machine is out of sockets or file descriptors" } else { "" };
    Fault::new(class, format!("cannot connect to {host}:{port} ({}){hint}", tried.join("; ")))
}

/// Whether connecting failed for want of something on this machine: file descriptors or local ports.
fn is_local(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    error.kind() == io::ErrorKind::AddrNotAvailable || matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

/// Closes connections that were idle for `keep_alive`, until the transport is gone.
pub(crate) fn spawn_reaper(clock: RunClock, keep_alive: Duration, connections: &Rc<Connections>) {
    let connections = Rc::downgrade(connections);
    let period = (keep_alive / 8).clamp(Duration::from_millis(5), Duration::from_secs(1));
    actix_rt::spawn(async move {
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(connections) = connections.upgrade() else { return };
            connections.close_idle(clock.now() - Nanos(keep_alive.as_nanos() as i64));
        }
    });
}
