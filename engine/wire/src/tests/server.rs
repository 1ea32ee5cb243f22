//! A server that answers with exactly the bytes it is told to, cut and timed as it is told to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What a connection does next.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Reads a whole request.
    Read,
    /// Writes these bytes at once.
    Write(Vec<u8>),
    /// Writes these bytes one at a time.
    Trickle(Vec<u8>),
    Wait(u64),
    /// Waits for the first byte of a request.
    FirstByte,
    Reset,
    Close,
    /// Waits until the client closes.
    AwaitClose,
    /// Goes on with the first step.
    Again,
}

/// A running server; its thread ends with the process.
pub(super) struct Server {
    pub(super) port: u16,
    connections: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

impl Server {
    /// Connections play `scripts` in order of arrival, the last one again and again.
    pub(super) fn start(scripts: Vec<Vec<Step>>) -> Self {
        let (sender, receiver) = std::sync::mpsc::channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let closed = Arc::new(AtomicUsize::new(0));
        let (opened, ended) = (Arc::clone(&connections), Arc::clone(&closed));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port");
                sender.send(listener.local_addr().expect("an address").port()).expect("a receiver");
                while let Ok((stream, _)) = listener.accept().await {
                    let number = opened.fetch_add(1, Ordering::SeqCst);
                    let script = scripts[number.min(scripts.len() - 1)].clone();
                    let ended = Arc::clone(&ended);
                    tokio::spawn(async move {
                        // A client that goes away ends the script; that is what some tests are about.
                        play(stream, &script).await.ok();
                        ended.fetch_add(1, Ordering::SeqCst);
                    });
                }
            });
        });
        Self { port: receiver.recv().expect("a port"), connections, closed }
    }

    /// One script for all connections: read, answer, again.
    pub(super) fn answering(answer: Vec<Step>) -> Self {
        Self::start(vec![[vec![Step::Read], answer, vec![Step::Again]].concat()])
    }

    /// Connections accepted so far.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Connections that have ended so far.
    pub(super) fn closed(&self) -> usize {
        self.closed.load(Ordering::SeqCst)
    }
}

async fn play(mut stream: TcpStream, script: &[Step]) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut index = 0;
    while let Some(step) = script.get(index) {
        index += 1;
        match step {
            Step::Read => read_request(&mut stream).await?,
            Step::Write(bytes) => stream.write_all(bytes).await?,
            Step::Trickle(bytes) => {
                for byte in bytes {
                    stream.write_all(std::slice::from_ref(byte)).await?;
                    tokio::task::yield_now().await;
                }
            }
            Step::Wait(ms) => {
                let until = tokio::time::timeout(Duration::from_millis(*ms), std::future::pending::<()>());
                until.await.ok();
            }
            Step::FirstByte => drop(stream.read_u8().await?),
            Step::Reset => {
                socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
                return Ok(());
            }
            Step::Close => return Ok(()),
            Step::AwaitClose => {
                let mut sink = [0; 4096];
                while stream.read(&mut sink).await? > 0 {}
                return Ok(());
            }
            Step::Again => index = 0,
        }
    }
    Ok(())
}

async fn read_request(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(())
}

/// A well-formed answer of `tokens` events.
pub(super) fn good_answer(tokens: usize) -> Vec<u8> {
    let mut events: Vec<String> =
        (0..tokens).map(|i| format!(r#"{{"choices":[{{"index":0,"delta":{{"content":" t{i}"}}}}]}}"#)).collect();
    events.push(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#.to_owned());
    events.push(format!(r#"{{"choices":[],"usage":{{"prompt_tokens":9,"completion_tokens":{tokens}}}}}"#));
    events.push("[DONE]".to_owned());
    let pieces: Vec<String> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    chunked(&pieces)
}

/// A 200 event stream of these pieces, each a chunk.
pub(super) fn chunked(pieces: &[String]) -> Vec<u8> {
    let mut answer =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for piece in pieces {
        answer.extend_from_slice(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes());
    }
    answer.extend_from_slice(b"0\r\n\r\n");
    answer
}

/// A JSON answer with a length.
pub(super) fn json(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}
