//! TLS 1.3 of direct data connections, by rustls. Each end makes a key for the run; the fingerprints of both go through ssh, which
//! has authenticated the two ends, and each end accepts only the key that has the other's fingerprint.
//!
//! ```text
//! identity (a key for the run)  ->  handshake (rustls)  ->  records (rustls' encryption, one half for each direction)
//! ```
//!
//! There are no certificates, names or authorities: the keys are raw (RFC 7250). No session is resumed and no early data is sent.

mod handshake;
mod records;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use haul_core::error::{Error, ErrorKind, Result};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::ring::cipher_suite::{TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, CipherSuite, ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
    SupportedCipherSuite,
};
use zeroize::Zeroizing;

pub use handshake::{accept, connect};
pub use records::{RecordReader, RecordWriter};

type Tls<T> = Result<T, rustls::Error>;

/// SHA-256 of a public key, in the form in which TLS carries it (SubjectPublicKeyInfo).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    fn of(key: &[u8]) -> Fingerprint {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, key).as_ref());
        Fingerprint(bytes)
    }
}

/// The key of this end, made for one run. The private half never leaves the process.
pub struct Identity {
    key: Arc<CertifiedKey>,
    pub fingerprint: Fingerprint,
}

fn failed(reason: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Other, "prepare TLS").because(reason.to_string())
}

impl Identity {
    /// A new key; fails if the system's random source does.
    pub fn new() -> Result<Identity> {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| failed("the system gives no random numbers"))?;
        let pkcs8 = Zeroizing::new(pkcs8.as_ref().to_vec());
        let signer = rustls::crypto::ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(&pkcs8[..])).map_err(failed)?;
        let public = signer.public_key().ok_or_else(|| failed("a key without a public half"))?.to_vec();
        let fingerprint = Fingerprint::of(&public);
        Ok(Identity { key: Arc::new(CertifiedKey::new(vec![CertificateDer::from(public)], signer)), fingerprint })
    }

    /// What this end connects with to the end that has `peer`.
    pub fn connector(&self, peer: Fingerprint, suites: &Suites) -> Result<Arc<ClientConfig>> {
        let builder = ClientConfig::builder_with_provider(suites.provider()).with_protocol_versions(&[&TLS13]).map_err(failed)?;
        let verifier = Arc::new(OnlyPeer::new(peer));
        let resolver = Arc::new(AlwaysResolvesClientRawPublicKeys::new(self.key.clone()));
        let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_client_cert_resolver(resolver);
        config.resumption = Resumption::disabled();
        config.enable_secret_extraction = true;
        Ok(Arc::new(config))
    }

    /// What this end accepts connections of the end that has `peer` with.
    pub fn acceptor(&self, peer: Fingerprint, suites: &Suites) -> Result<Arc<ServerConfig>> {
        let builder = ServerConfig::builder_with_provider(suites.provider()).with_protocol_versions(&[&TLS13]).map_err(failed)?;
        let resolver = Arc::new(AlwaysResolvesServerRawPublicKeys::new(self.key.clone()));
        let mut config = builder.with_client_cert_verifier(Arc::new(OnlyPeer::new(peer))).with_cert_resolver(resolver);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.enable_secret_extraction = true;
        // The end that is slow at AES decides.
        config.ignore_client_order = !has_aes();
        Ok(Arc::new(config))
    }
}

/// Cipher suites of data connections, by their names in TLS.
#[derive(Clone, Debug, PartialEq)]
pub struct Suites(Vec<SupportedCipherSuite>);

impl Default for Suites {
    /// All of them; AES is first where the processor has instructions for it.
    fn default() -> Self {
        let mut all = vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384];
        all.insert(if has_aes() { all.len() } else { 0 }, TLS13_CHACHA20_POLY1305_SHA256);
        Suites(all)
    }
}

impl Suites {
    /// Those of these names, in haul's order. Fails for a name that is none, and for none at all.
    pub fn named(names: &[String]) -> Result<Suites, String> {
        let all = Suites::default();
        if let Some(unknown) = names.iter().find(|name| !all.names().contains(name)) {
            return Err(format!("{unknown:?} is no cipher suite of haul: {}", all.names().join(", ")));
        }
        if names.is_empty() {
            return Err(format!("name at least one cipher suite of {}", all.names().join(", ")));
        }
        Ok(Suites(all.0.into_iter().filter(|suite| names.contains(&name(suite.suite()))).collect()))
    }

    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|suite| name(suite.suite())).collect()
    }

    fn provider(&self) -> Arc<CryptoProvider> {
        Arc::new(CryptoProvider { cipher_suites: self.0.clone(), ..rustls::crypto::ring::default_provider() })
    }
}

/// `TLS_AES_128_GCM_SHA256`, as IANA names it.
fn name(suite: CipherSuite) -> String {
    format!("{suite:?}").replacen("TLS13_", "TLS_", 1)
}

/// Whether the processor has instructions for AES and for the multiplication of GCM.
pub fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// Accepts the one key that has the fingerprint, and that its owner has signed the handshake with it.
#[derive(Debug)]
struct OnlyPeer {
    peer: Fingerprint,
    algorithms: WebPkiSupportedAlgorithms,
}

impl OnlyPeer {
    fn new(peer: Fingerprint) -> OnlyPeer {
        OnlyPeer { peer, algorithms: rustls::crypto::ring::default_provider().signature_verification_algorithms }
    }

    fn check<T>(&self, key: &CertificateDer<'_>, others: &[CertificateDer<'_>], verified: T) -> Tls<T> {
        let is_peer = others.is_empty() && Fingerprint::of(key) == self.peer;
        if is_peer { Ok(verified) } else { Err(CertificateError::ApplicationVerificationFailure.into()) }
    }

    fn verify(&self, message: &[u8], key: &CertificateDer<'_>, signed: &DigitallySignedStruct) -> Tls<HandshakeSignatureValid> {
        verify_tls13_signature_with_raw_key(message, &SubjectPublicKeyInfoDer::from(key.as_ref()), signed, &self.algorithms)
    }
}

/// TLS 1.2 is not spoken.
fn no_tls12() -> Tls<HandshakeSignatureValid> {
    Err(rustls::Error::General("not TLS 1.3".into()))
}

type Cert<'a> = CertificateDer<'a>;

impl ServerCertVerifier for OnlyPeer {
    fn verify_server_cert(
        &self,
        key: &Cert<'_>,
        others: &[Cert<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Tls<ServerCertVerified> {
        self.check(key, others, ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(&self, _: &[u8], _: &Cert<'_>, _: &DigitallySignedStruct) -> Tls<HandshakeSignatureValid> {
        no_tls12()
    }

    fn verify_tls13_signature(&self, message: &[u8], key: &Cert<'_>, signed: &DigitallySignedStruct) -> Tls<HandshakeSignatureValid> {
        self.verify(message, key, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for OnlyPeer {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(&self, key: &Cert<'_>, others: &[Cert<'_>], _: UnixTime) -> Tls<ClientCertVerified> {
        self.check(key, others, ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(&self, _: &[u8], _: &Cert<'_>, _: &DigitallySignedStruct) -> Tls<HandshakeSignatureValid> {
        no_tls12()
    }

    fn verify_tls13_signature(&self, message: &[u8], key: &Cert<'_>, signed: &DigitallySignedStruct) -> Tls<HandshakeSignatureValid> {
        self.verify(message, key, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
