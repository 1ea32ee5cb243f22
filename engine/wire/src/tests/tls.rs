//! TLS: who is trusted, and that a cut answer is noticed under it too.

use std::path::PathBuf;
use std::sync::Arc;

use agentx_types::Outcome;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::server::good_answer;
use super::{ask, options};
use crate::TlsOptions;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tls").join(name)
}

/// A TLS server that answers each connection's first request with `answer` and closes with a proper notice.
fn start(answer: Vec<u8>) -> u16 {
    let certificates = rustls::pki_types::CertificateDer::pem_file_iter(file("server.pem"))
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .expect("certificates");
    let key = PrivateKeyDer::from_pem_file(file("server.key")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .expect("a configuration");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            sender.send(listener.local_addr().expect("an address").port()).expect("a receiver");
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, answer) = (acceptor.clone(), answer.clone());
                tokio::spawn(async move {
                    let mut stream = acceptor.accept(stream).await?;
                    let mut request = vec![0; 4096];
                    let mut length = 0;
                    while !request[..length].ends_with(b"}") {
                        length += stream.read(&mut request[length..]).await?;
                    }
                    stream.write_all(&answer).await?;
                    stream.shutdown().await?;
                    // The connection itself stays open: only the notice tells of the end.
                    stream.read(&mut request).await
                });
            }
        });
    });
    receiver.recv().expect("a port")
}

fn ask_with(answer: Vec<u8>, host: &str, tls: TlsOptions) -> Outcome {
    let mut options = options(start(answer));
    options.urls = vec![options.urls[0].replace("127.0.0.1", &format!("https://{host}"))];
    options.tls = tls;
    ask(options)
}

fn trusting() -> TlsOptions {
    TlsOptions { ca_file: Some(file("server.pem")), verify: true }
}

#[test]
fn a_server_is_trusted_by_its_authority_or_not_at_all() {
    for host in ["localhost", "127.0.0.1"] {
        let outcome = ask_with(good_answer(3), host, trusting());
        assert!(outcome.is_ok(), "{:?}", outcome.kind);
        assert_eq!((outcome.content_times.len(), outcome.http.reused), (3, false));
        assert!(outcome.http.connecting.0 > 0 && outcome.http.send_start > Some(outcome.start));
    }
    let unknown = ask_with(good_answer(3), "localhost", TlsOptions::default());
    assert_eq!(unknown.error().map(|error| error.class.name()).as_deref(), Some("tls"), "{:?}", unknown.kind);
    let unchecked = ask_with(good_answer(3), "localhost", TlsOptions { ca_file: None, verify: false });
    assert!(unchecked.is_ok(), "{:?}", unchecked.kind);
}

#[test]
fn a_cut_answer_is_noticed_though_the_end_was_announced() {
    let whole = good_answer(3);
    for missing in [1, 5, 30, 300] {
        let outcome = ask_with(whole[..whole.len() - missing].to_vec(), "localhost", trusting());
        let class = outcome.error().map(|error| error.class.name());
        assert_eq!(class.as_deref(), Some("stream_disconnect"), "{missing} bytes missing");
    }
}
