//! TLS by rustls: the system's certificate authorities or those of a file, HTTP/1.1 only.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::WireError;
use crate::options::TlsOptions;

/// Where systems keep their certificate authorities.
const SYSTEM_BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The client's TLS configuration.
pub(crate) fn client_config(options: &TlsOptions) -> Result<Arc<ClientConfig>, WireError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let mut config = if options.verify {
        builder.with_root_certificates(roots(options)?).with_no_client_auth()
    } else {
        // The file is still checked, so that a wrong path does not go unnoticed.
        roots(options)?;
        let verifier = Arc::new(Unverified(provider));
        builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn roots(options: &TlsOptions) -> Result<Arc<RootCertStore>, WireError> {
    let Some(path) = &options.ca_file else { return Ok(Arc::clone(&SYSTEM_ROOTS)) };
    let mut store = RootCertStore::empty();
    let certificates = read_pem(path).map_err(|source| WireError::CaFile { path: path.clone(), source })?;
    let (added, _) = store.add_parsable_certificates(certificates);
    if added == 0 { Err(WireError::CaEmpty { path: path.clone() }) } else { Ok(Arc::new(store)) }
}

/// The system's authorities, read once: every transport of the process has them.
static SYSTEM_ROOTS: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
    let mut store = RootCertStore::empty();
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let system = named.iter().map(PathBuf::as_path).chain(SYSTEM_BUNDLES.iter().map(Path::new));
    for path in system {
        if let Ok(certificates) = read_pem(path)
            && store.add_parsable_certificates(certificates).0 > 0
        {
            return Arc::new(store);
        }
    }
    store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    Arc::new(store)
});

fn read_pem(path: &Path) -> std::io::Result<Vec<CertificateDer<'static>>> {
    let mut reader = std::io::BufReader::new(std::fs::File::open(path)?);
    rustls_pemfile::certs(&mut reader).collect()
}

/// Accepts any certificate (`target.tls.verify: false`); the handshake itself is still checked.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
