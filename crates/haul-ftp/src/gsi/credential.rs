//! The user's credential: a proxy, or a certificate with its key; where grid tools look for them and as strictly.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use haul_core::error::{Error, ErrorKind, Result};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SigningKey};
use zeroize::Zeroizing;

use super::certificate::{Certificate, Proxy};
use super::now;
use super::passphrase::{Locked, Unusable};
use crate::facts::strftime;
use haul_core::lock::lock;
use haul_net::http_client::Environment;

pub const OP: &str = "read the credential";
pub const NEW_PROXY: &str = "create a proxy with grid-proxy-init, voms-proxy-init or arcproxy";
/// Bytes of a file with certificates or a key.
const MOST: u64 = 1 << 20;
/// A credential that ends sooner than this is worth a warning: seconds.
const SHORT: i64 = 3600;

/// Certificates, the user's own first, and the key of the first.
#[derive(Debug)]
pub struct Credential {
    pub certified: Arc<CertifiedKey>,
    /// The first certificate of the chain.
    pub own: Certificate,
    /// When the first of them ends, in seconds since 1970.
    pub until: i64,
    pub path: PathBuf,
}

impl Credential {
    /// From `X509_USER_PROXY`, `/tmp/x509up_uUID`, `X509_USER_CERT` with `X509_USER_KEY`, or `~/.globus`, the first that is there.
    /// Error: `Denied` where there is none, it has expired, others can read the key, or no passphrase opens it.
    pub fn find(environment: &Environment, print: &dyn Fn(&str)) -> Result<Credential> {
        let user = rustix::process::geteuid().as_raw();
        let usual = PathBuf::from(format!("/tmp/x509up_u{user}"));
        let named = environment.get("X509_USER_PROXY").map(PathBuf::from);
        let proxy = named.or_else(|| usual.exists().then(|| usual.clone()));
        let pair = match (environment.get("X509_USER_CERT"), environment.get("X509_USER_KEY")) {
            (Some(certificate), Some(key)) => Some((PathBuf::from(certificate), PathBuf::from(key))),
            _ => environment.home().map(|home| (home.join(".globus/usercert.pem"), home.join(".globus/userkey.pem"))),
        };
        let credential = match (proxy, pair) {
            (Some(proxy), _) => Credential::read(&proxy, &proxy)?,
            (None, Some((certificate, key))) if certificate.exists() => Credential::read(&certificate, &key)?,
            (None, _) => {
                let words = format!("no proxy in X509_USER_PROXY or {}, and no certificate in ~/.globus", usual.display());
                return Err(Error::new(ErrorKind::Denied, OP).because(words).hint(NEW_PROXY));
            }
        };
        credential.check(now(), print)?;
        Ok(credential)
    }

    fn read(certificates: &Path, key: &Path) -> Result<Credential> {
        let failed = |path: &Path, words: &str| Error::new(ErrorKind::Denied, OP).at(path.as_os_str().as_encoded_bytes()).because(words);
        let text = private(key, certificates == key)?;
        let holder = if certificates == key { text.clone() } else { read(certificates, &open(certificates)?)? };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&holder)
            .collect::<Result<_, _>>()
            .map_err(|_| failed(certificates, "its certificates cannot be read").hint(NEW_PROXY))?;
        let parsed: Option<Vec<Certificate>> = chain.iter().map(|certificate| Certificate::parse(certificate)).collect();
        let parsed = parsed.filter(|all| !all.is_empty());
        let parsed = parsed.ok_or_else(|| failed(certificates, "no certificate is in it").hint(NEW_PROXY))?;
        let signer = match Locked::find(&text) {
            Ok(locked) => unlocked(&locked, key)?,
            Err(Unusable::Plain) => PrivateKeyDer::from_pem_slice(&text).ok().and_then(|key| signing_key(&key)),
            Err(Unusable::Cipher(name)) => {
                let words = format!("the private key is encrypted in a way that is not supported ({name})");
                return Err(failed(key, &words).hint(NEW_PROXY));
            }
            Err(Unusable::Damaged) => None,
        };
        let signer = signer.ok_or_else(|| failed(key, "no private key that can be used is in it").hint(NEW_PROXY))?;
        if signer.public_key().is_some_and(|key| key.as_ref() != parsed[0].key.as_slice()) {
            return Err(failed(key, "the private key is not that of the certificate").hint(NEW_PROXY));
        }
        let until = parsed.iter().map(|certificate| certificate.not_after).min().unwrap_or(0);
        let certified = Arc::new(CertifiedKey::new(chain, signer));
        let own = parsed.into_iter().next().ok_or_else(|| failed(certificates, "no certificate is in it"))?;
        Ok(Credential { certified, own, until, path: certificates.to_path_buf() })
    }

    /// Whether it can be used at `now`; prints a line where it cannot for long.
    fn check(&self, now: i64, print: &dyn Fn(&str)) -> Result<()> {
        let shown = |seconds| strftime("%Y-%m-%d %H:%M:%S UTC", seconds);
        let failed = |words: String| Error::new(ErrorKind::Denied, OP).at(self.path.as_os_str().as_encoded_bytes()).because(words);
        let what = if self.own.proxy.is_some() { "proxy" } else { "certificate" };
        if now > self.until {
            return Err(failed(format!("the {what} expired at {}", shown(self.until))).hint(NEW_PROXY));
        }
        if now < self.own.not_before {
            let words = format!("the {what} is not valid before {}", shown(self.own.not_before));
            return Err(failed(words).hint("check this machine's clock"));
        }
        let left = self.until - now;
        if left < SHORT {
            print(&format!("WARNING: the {what} {} expires in {} min; {NEW_PROXY}", self.path.display(), left / 60));
        }
        Ok(())
    }

    /// The policy language of a further proxy: never more rights than this one has.
    pub fn proxy(&self) -> Proxy {
        /// id-ppl-inheritAll (RFC 3820).
        const INHERIT_ALL: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 21, 1];
        self.own.proxy.clone().unwrap_or_else(|| Proxy::Rfc(INHERIT_ALL.to_vec()))
    }
}

type Signer = Arc<dyn SigningKey>;

/// The key of a file with a passphrase, which is asked for once; `None` where it cannot be used.
fn unlocked(locked: &Locked, path: &Path) -> Result<Option<Signer>> {
    static OPENED: Mutex<BTreeMap<PathBuf, Signer>> = Mutex::new(BTreeMap::new()); // while one caller asks, others wait
    let mut opened = lock(&OPENED);
    if let Some(signer) = opened.get(path) {
        return Ok(Some(signer.clone()));
    }
    let signer = signing_key(&locked.key(&locked.ask(path)?));
    if let Some(signer) = &signer {
        opened.insert(path.to_path_buf(), signer.clone());
    }
    Ok(signer)
}

fn signing_key(key: &PrivateKeyDer<'_>) -> Option<Signer> {
    rustls::crypto::ring::sign::any_supported_type(key).ok()
}

fn open(path: &Path) -> Result<File> {
    let named = |e| Error::io(e, OP).at(path.as_os_str().as_encoded_bytes()).kind_is(ErrorKind::Denied);
    File::open(path).map_err(|e| named(e).hint(NEW_PROXY))
}

fn read(path: &Path, file: &File) -> Result<Zeroizing<Vec<u8>>> {
    let mut text = Zeroizing::new(Vec::new());
    file.take(MOST).read_to_end(&mut text).map_err(|e| Error::io(e, OP).at(path.as_os_str().as_encoded_bytes()))?;
    Ok(text)
}

/// A file with a key, which is read only if nobody else can.
fn private(path: &Path, is_proxy: bool) -> Result<Zeroizing<Vec<u8>>> {
    let file = open(path)?;
    let named = |e: Error| e.at(path.as_os_str().as_encoded_bytes());
    let meta = file.metadata().map_err(|e| named(Error::io(e, OP)))?;
    let failed = |words: &str| named(Error::new(ErrorKind::Denied, OP).because(words.to_string()));
    let what = if is_proxy { "the proxy" } else { "the private key" };
    if !meta.is_file() {
        return Err(failed("it is not a regular file"));
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(failed(&format!("{what} belongs to another user")).hint(NEW_PROXY));
    }
    if meta.mode() & 0o077 != 0 {
        let e = failed(&format!("{what} can be read by others (mode {:04o})", meta.mode() & 0o7777));
        return Err(e.hint(format!("chmod 600 {}", path.display())));
    }
    read(path, &file)
}
