//! Starting, serving and stopping.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use agentx_types::TokenCounter;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::api::Api;
use crate::error::MockError;
use crate::log::Log;
use crate::options::MockOptions;

/// The simulated server.
#[derive(Debug)]
pub struct MockServer;

/// A running server; it stops when this is dropped.
#[derive(Debug)]
pub struct MockHandle {
    port: u16,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MockServer {
    /// Starts the server on a thread of its own and returns when it listens on 127.0.0.1.
    pub fn start(options: MockOptions, counter: Arc<dyn TokenCounter>) -> Result<MockHandle, MockError> {
        options.validate()?;
        let log = Log::open(options.log.as_deref())?;
        let port = options.port;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(MockError::Start)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listen = |source| MockError::Listen { port, source };
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(listen)?;
        let port = listener.local_addr().map_err(listen)?.port();
        let api = Arc::new(Api::new(options, counter, log));
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("mock-server".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        biased;
                        // Either asked to stop or the handle is gone.
                        _ = stopped => {}
                        () = accept(listener, api) => {}
                    }
                });
            })
            .map_err(MockError::Start)?;
        Ok(MockHandle { port, stop: Some(stop), thread: Some(thread) })
    }
}

/// Runs the server until the process ends. `ready` is called with the port once it listens.
pub fn serve_forever(
    options: MockOptions,
    counter: Arc<dyn TokenCounter>,
    ready: impl FnOnce(u16),
) -> Result<(), MockError> {
    let mut handle = MockServer::start(options, counter)?;
    ready(handle.port());
    match handle.thread.take().map(JoinHandle::join) {
        Some(Ok(())) => Ok(()),
        _ => Err(MockError::Died),
    }
}

impl MockHandle {
    /// The port it listens on, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Stops the server: open connections are closed, and the log is complete when this returns.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for MockHandle {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // An error means that the thread has ended already.
            stop.send(()).ok();
        }
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

async fn accept(listener: TcpListener, api: Arc<Api>) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, most likely: those in use come back when requests end.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep_until(tokio::time::Instant::from_std(api.retry_at())).await;
                continue;
            }
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY was not set");
        }
        let api = Arc::clone(&api);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let api = Arc::clone(&api);
                async move { Ok::<_, std::convert::Infallible>(api.handle(request).await) }
            });
            if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "a connection ended with an error");
            }
        });
    }
}
