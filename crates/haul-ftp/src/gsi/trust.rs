//! Whom to believe: the authorities of a grid's directory for the server's own certificate, and on data connections nobody but the
//! holder of a proxy that this side has issued.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_core::error::{Error, ErrorKind, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error as TlsError, OtherError, RootCertStore, SignatureScheme};

use super::certificate::Certificate;
use super::der::is_handshake_by;
use super::policy::Policies;
use super::revoked::{Revoked, Why};
use haul_net::http_client::Environment;

const OP: &str = "read the trusted authorities";
/// Bytes of one file of the directory: lists of revoked certificates may be long.
const MOST: u64 = 64 << 20;
/// Proxies that may stand between a peer's certificate and ours.
const PROXIES: usize = 8;

/// Why a certificate is refused, with the next step.
#[derive(Debug)]
pub struct Refusal {
    pub words: String,
    pub hint: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Refusal {}

fn refuse(words: impl Into<String>, hint: impl Into<String>) -> TlsError {
    let refusal = Refusal { words: words.into(), hint: hint.into() };
    TlsError::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(refusal))))
}

/// Verifies the certificate of the control connection.
#[derive(Debug)]
pub struct Authorities {
    verifier: Arc<WebPkiServerVerifier>,
    policies: Policies,
    revoked: Revoked,
    directory: PathBuf,
}

impl Authorities {
    /// From the directory that `X509_CERT_DIR` names, `~/.globus/certificates` or `/etc/grid-security/certificates`: certificates in
    /// files `HASH.N`, lists of revoked ones in `HASH.rN`, and `HASH.signing_policy`.
    /// Error: `Denied` where there is no such directory, or no authority in it.
    pub fn read(environment: &Environment, print: &dyn Fn(&str)) -> Result<Authorities> {
        let usual = [environment.home().map(|home| home.join(".globus/certificates")), Some("/etc/grid-security/certificates".into())];
        let named = environment.get("X509_CERT_DIR").map(PathBuf::from);
        let directory = named.or_else(|| usual.into_iter().flatten().find(|directory| directory.is_dir()));
        let hint = "install the certificates of your grid (package ca-policy-egi-core or igtf-ca-bundle), or name their directory in X509_CERT_DIR";
        let Some(directory) = directory else {
            let words = "no directory of trusted authorities: neither ~/.globus/certificates nor /etc/grid-security/certificates";
            return Err(Error::new(ErrorKind::Denied, OP).because(words).hint(hint));
        };
        let named = |e: Error| e.at(directory.as_os_str().as_encoded_bytes());
        let mut files: Vec<PathBuf> = std::fs::read_dir(&directory)
            .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
            .map_err(|e| named(Error::io(e, OP).kind_is(ErrorKind::Denied).hint(hint)))?;
        files.sort();
        let (mut roots, mut revoked, mut policies) = (RootCertStore::empty(), Revoked::default(), Policies::default());
        for (file, end) in files.iter().filter_map(|file| Some((file, hashed(file)?))) {
            let Some(bytes) = read(file) else { continue };
            match end.strip_prefix('r') {
                None if end == "signing_policy" => policies.add(&String::from_utf8_lossy(&bytes)),
                None => {
                    let all = one_or_many(&bytes, CertificateDer::pem_slice_iter, CertificateDer::from);
                    all.iter().filter_map(|one| Certificate::parse(one)).for_each(|authority| revoked.add_authority(authority));
                    // One that cannot be used is believed by nobody.
                    roots.add_parsable_certificates(all);
                }
                Some(_) => {
                    let all = one_or_many(&bytes, CertificateRevocationListDer::pem_slice_iter, CertificateRevocationListDer::from);
                    let known: Vec<bool> = all.into_iter().map(|list| revoked.add(list.to_vec())).collect();
                    if known.is_empty() || known.contains(&false) {
                        print(&format!("WARNING: {}: the list of revoked certificates cannot be read and is ignored", file.display()));
                    }
                }
            }
        }
        if roots.is_empty() {
            return Err(named(Error::new(ErrorKind::Denied, OP).because("no certificate of an authority is in it").hint(hint)));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let verifier = verifier.map_err(|e| named(Error::new(ErrorKind::Denied, OP).because(e.to_string()).hint(hint)))?;
        Ok(Authorities { verifier, policies, revoked, directory })
    }

    fn explain_list(&self, certificate: &Certificate, why: &Why) -> TlsError {
        let (subject, issuer) = (certificate.shown_subject(), certificate.shown_issuer());
        let update = format!("update the lists in {}, as with fetch-crl", self.directory.display());
        match why {
            Why::Revoked => refuse(format!("the certificate {subject} was revoked by {issuer}"), "ask the server's administrator"),
            Why::Old => refuse(format!("the list of certificates that {issuer} has revoked is out of date"), update),
            Why::Forged => refuse(format!("the list of certificates that {issuer} has revoked is not signed by it"), update),
        }
    }

    /// The error's words, for somebody who has to do something about it.
    fn explain(&self, e: TlsError, certificate: Option<&Certificate>, name: &ServerName<'_>) -> TlsError {
        let subject = certificate.map_or("?".to_string(), Certificate::shown_subject);
        let issuer = certificate.map_or("?".to_string(), Certificate::shown_issuer);
        let directory = self.directory.display();
        let name = name.to_str();
        match e {
            TlsError::InvalidCertificate(why) => match why {
                CertificateError::UnknownIssuer => refuse(
                    format!("the server's certificate {subject} is signed by {issuer}, which is not trusted"),
                    format!("add the authority's certificate to {directory}, or name another directory in X509_CERT_DIR"),
                ),
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => refuse(
                    format!("the server's certificate {subject} has expired, or one of those that it depends on"),
                    "its administrator has to renew it; check this machine's clock, too",
                ),
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    refuse(format!("the server's certificate {subject} is not valid yet"), "check this machine's clock")
                }
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => refuse(
                    format!("the server's certificate is not for {name} but for {subject}"),
                    "use the host name that the certificate has",
                ),
                other => refuse(format!("the server's certificate {subject} is invalid: {other}"), "ask the server's administrator"),
            },
            other => other,
        }
    }
}

/// The end of a file name of such a directory: eight hexadecimal digits, and what follows the dot.
fn hashed(file: &Path) -> Option<&str> {
    let (hash, end) = file.file_name()?.to_str()?.split_once('.')?;
    let is_hash = hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = end.strip_prefix('r').unwrap_or(end);
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && is_hash || end == "signing_policy").then_some(end)
}

fn read(file: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(std::fs::File::open(file).ok()?, MOST), &mut bytes).ok()?;
    Some(bytes)
}

/// What a file has in PEM, or else the one thing that it has in DER.
fn one_or_many<'a, T: 'a, I: Iterator<Item = std::result::Result<T, rustls::pki_types::pem::Error>>>(
    bytes: &'a [u8],
    many: impl FnOnce(&'a [u8]) -> I,
    one: impl FnOnce(Vec<u8>) -> T,
) -> Vec<T> {
    let found: Vec<T> = many(bytes).filter_map(std::result::Result::ok).collect();
    if found.is_empty() && bytes.first() == Some(&super::der::SEQUENCE) { vec![one(bytes.to_vec())] } else { found }
}

/// Whether a certificate without names of hosts has this one as its common name, with or without the word of a service before it.
fn is_common_name(certificate: &Certificate, name: &ServerName<'_>) -> bool {
    let common = certificate.common_name().and_then(|name| String::from_utf8(name).ok());
    let Some(common) = common.filter(|_| !certificate.names_hosts) else { return false };
    common.rsplit('/').next().is_some_and(|common| common.eq_ignore_ascii_case(&name.to_str()))
}

impl ServerCertVerifier for Authorities {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, TlsError> {
        let own = Certificate::parse(certificate);
        let others_parsed: Vec<Certificate> = others.iter().filter_map(|other| Certificate::parse(other)).collect();
        if let Some((subject, issuer)) = self.policies.violation(own.iter().chain(&others_parsed)) {
            let words = format!("the authority {issuer} may not certify {subject}, says its signing policy");
            return Err(refuse(words, format!("look at the signing policies in {}", self.directory.display())));
        }
        // The name is checked last: whoever fails by it alone has a valid chain.
        let verified = match self.verifier.verify_server_cert(certificate, others, name, stapled, now) {
            Err(TlsError::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }))
                if own.as_ref().is_some_and(|own| is_common_name(own, name)) =>
            {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified.map_err(|e| self.explain(e, own.as_ref(), name)),
        }?;
        let chain: Vec<Certificate> = own.into_iter().chain(others_parsed).collect();
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        match self.revoked.find(&chain, now) {
            None => Ok(verified),
            Some((certificate, why)) => Err(self.explain_list(certificate, &why)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// The other end of a data connection: it has to hold a proxy of the credential that it was delegated to by.
#[derive(Debug)]
pub struct Delegated {
    pub own: Certificate,
}

impl Delegated {
    fn verify(&self, certificate: &CertificateDer<'_>, others: &[CertificateDer<'_>], now: UnixTime) -> std::result::Result<(), TlsError> {
        let refused = || refuse("the data connection is with somebody else than the control connection", "tell the server's administrator");
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let others: Vec<Certificate> = others.iter().filter_map(|other| Certificate::parse(other)).collect();
        let mut current = Certificate::parse(certificate).ok_or_else(refused)?;
        for _ in 0..PROXIES {
            if !current.is_valid_at(now) {
                return Err(refuse("the proxy of the data connection is not valid now", "check the clocks of both machines"));
            }
            if current.is_proxy_of(&self.own) {
                return Ok(());
            }
            current = others.iter().find(|other| current.is_proxy_of(other)).ok_or_else(refused)?.clone();
        }
        Err(refused())
    }
}

fn verify_signed(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> std::result::Result<HandshakeSignatureValid, TlsError> {
    let key = Certificate::parse(certificate).map(|certificate| certificate.key);
    match key.is_some_and(|key| is_handshake_by(&key, signed.scheme, message, signed.signature())) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(TlsError::InvalidCertificate(CertificateError::BadSignature)),
    }
}

impl ServerCertVerifier for Delegated {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _stapled: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, TlsError> {
        self.verify(certificate, others, now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        verify_signed(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        verify_signed(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
