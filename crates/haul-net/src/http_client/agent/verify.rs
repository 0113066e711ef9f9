//! rustls' verifier, which also accepts a server's certificate that is itself in the bundle.
//!
//! `openssl req -x509` makes a certificate that signs itself and is marked as an authority; small servers use such. rustls
//! rejects it, curl and the AWS command line accept it if it is in the bundle. Name and dates are checked all the same, and the
//! bytes must be those of a root.

use std::sync::Arc;

use haul_core::error::{Error, ErrorKind, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme, SupportedProtocolVersion};

/// How rustls is set up for these roots; without `verify` it believes anybody, and without roots nobody.
pub(super) fn config(
    roots: Vec<CertificateDer<'static>>,
    verify: bool,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<ClientConfig> {
    let failed = |words: String| Error::new(ErrorKind::Usage, "set up connections").because(words);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions);
    let builder = builder.map_err(|error| failed(error.to_string()))?;
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots.iter().cloned());
    if verify && store.is_empty() {
        return Ok(builder.with_root_certificates(store).with_no_client_auth());
    }
    let chains = if verify { Some(WebPkiServerVerifier::builder_with_provider(store.into(), provider.clone()).build()) } else { None };
    let chains = chains.transpose().map_err(|error| failed(format!("unusable CA certificates: {error}")))?;
    let verifier = Arc::new(Verifier { chains, roots, provider });
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

#[derive(Debug)]
struct Verifier {
    /// None believes everybody, as `--no-verify-ssl` asks: the line is then only private from those who listen.
    chains: Option<Arc<WebPkiServerVerifier>>,
    roots: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chains) = &self.chains else { return Ok(ServerCertVerified::assertion()) };
        match chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The dates were checked before this is said.
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(why)))
                if why.to_string().contains("CaUsedAsEndEntity") && self.roots.iter().any(|root| root == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match self.chains {
            Some(_) => verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match self.chains {
            Some(_) => verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
