//! The agent that requests go through: whom it trusts, by which way it goes, how long it waits.
//!
//! What was chosen, and why:
//!
//! - **TLS** by rustls with ring. Roots are the machine's own, so that a site's own authority works without a flag. They are
//!   read here and not by rustls-native-certs, which passes by files of a folder that have no hash for a name. A bundle that is named
//!   stands *in place of* the system's, as with the AWS command line.
//! - **A certificate that is itself in the bundle is believed**, even one that is marked as an authority: `openssl req -x509`
//!   makes such, small servers use them, and rustls alone would refuse them (see `verify.rs`).
//! - **Waiting**: ten seconds to connect, shaking hands included, and a bound on each read and each write, none on the whole:
//!   a body may take hours as long as it moves.
//! - **The proxy** is chosen once, by scheme and host of the endpoint, as curl does it. A proxy is always asked to CONNECT,
//!   for `http://` too; one that forbids that to other ports than 443 serves only `https://`.
//! - **Names** are looked up again after ten seconds and used in turn: the agent asks for addresses before every request, even
//!   one for which it has a connection, and S3 answers with several addresses so that clients spread over them.
//! - **No redirects** (a signature is for one host), no statuses as errors (the body says why), no compression.
//! - **Buffers** of 128 KiB each way, two for a connection and four with TLS, made when first used. Over loopback a GiB costs
//!   this side 0.23 to 0.30 CPU seconds to put whatever the buffer, 0.47 to get with 16 KiB, 0.20 to 0.40 with 128 KiB and no
//!   less above it; with TLS 0.3 to put and 0.5 to get (a loaded machine: the figures vary by a third).

mod failure;
mod resolver;
mod tls;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Result};
use http::Uri;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use ureq::config::AutoHeaderValue;
use ureq::unversioned::transport::{ConnectProxyConnector, Connector, SocksConnector, TcpConnector};
use ureq::{Agent, Proxy};

pub use self::failure::explained;
use self::resolver::Addresses;
use self::tls::TlsConnector;
use super::account::Environment;

/// Bytes in each buffer of a connection.
pub const BUFFER: usize = 128 << 10;

/// How long a connection that nobody uses is kept. Servers close theirs after 20 seconds (S3) and later; a request on one
/// that is being closed is a request lost.
const KEPT: Duration = Duration::from_secs(15);

/// Where the distributions keep all certificates in one file: Debian and Arch, Fedora and RHEL, openSUSE, newer RHEL, Alpine.
const FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
const FOLDERS: [&str; 2] = ["/etc/ssl/certs", "/etc/pki/tls/certs"];

/// What an agent is to be like.
#[derive(Clone, Debug)]
pub struct Trust {
    /// Scheme and host of whom it is for: they decide about certificates and proxy.
    pub endpoint: Uri,
    /// Whether certificates are looked at. The caller warns loudly when they are not.
    pub verify: bool,
    /// Certificates in place of the system's: a file of them in PEM, or a folder of such files.
    pub bundle: Option<PathBuf>,
    /// The bound for connecting, handshakes included.
    pub connect: Duration,
    /// The bound for each single wait to read or to write.
    pub patience: Duration,
    /// The most connections that are kept for the next request.
    pub connections: usize,
    /// Bytes in each buffer.
    pub buffer: usize,
    /// Whether to go through a proxy if the environment names one.
    pub proxied: bool,
    pub environment: Environment,
}

impl Trust {
    /// For an endpoint, with certificates looked at and the usual bounds.
    pub fn of(endpoint: Uri, environment: Environment) -> Trust {
        Trust {
            endpoint,
            verify: true,
            bundle: None,
            connect: Duration::from_secs(10),
            patience: Duration::from_secs(60),
            connections: 512,
            buffer: BUFFER,
            proxied: true,
            environment,
        }
    }
}

/// An agent for one endpoint: cheap to clone, for any number of threads.
///
/// Usage errors: a bundle that cannot be read or has no certificate, a proxy that is no address, a machine that has no
/// certificates at all.
pub fn agent(trust: &Trust) -> Result<Agent> {
    let proxy = if trust.proxied { proxy(&trust.endpoint, &trust.environment)? } else { None };
    let schemes = [trust.endpoint.scheme_str(), proxy.as_ref().and_then(|proxy| proxy.uri().scheme_str())];
    let roots = if trust.verify && schemes.contains(&Some("https")) { roots(trust)? } else { Vec::new() };
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .no_delay(true)
        .proxy(proxy)
        .user_agent(concat!("haul/", env!("CARGO_PKG_VERSION")))
        .accept(AutoHeaderValue::None)
        .accept_encoding("identity")
        .timeout_resolve(Some(trust.connect))
        .timeout_connect(Some(trust.connect))
        .timeout_per_read(Some(trust.patience))
        .timeout_per_write(Some(trust.patience))
        .input_buffer_size(trust.buffer)
        .output_buffer_size(trust.buffer)
        .max_idle_connections(trust.connections)
        .max_idle_connections_per_host(trust.connections)
        .max_idle_age(KEPT)
        .build();
    let tls = Arc::new(verify::config(roots, trust.verify)?);
    let connector =
        ().chain(SocksConnector::default()).chain(ConnectProxyConnector::default()).chain(TcpConnector::default()).chain(TlsConnector(tls));
    Ok(Agent::with_parts(config, connector, Addresses::default()))
}

fn usage(words: String) -> Error {
    Error::new(ErrorKind::Usage, "set up connections").because(words)
}

/// The certificates to trust: the bundle's, or the system's.
fn roots(trust: &Trust) -> Result<Vec<CertificateDer<'static>>> {
    if let Some(bundle) = &trust.bundle {
        let found = certificates(bundle).map_err(|error| {
            usage(format!("the certificates in {} cannot be read: {}", bundle.display(), Error::io(error, "read").reason()))
        })?;
        if found.is_empty() {
            return Err(usage(format!("{} has no certificate in PEM (-----BEGIN CERTIFICATE-----)", bundle.display())));
        }
        return Ok(found);
    }
    let found = system_roots(&trust.environment);
    if found.is_empty() {
        let words = "this machine has no certificates to trust: neither SSL_CERT_FILE nor a file such as";
        let error = usage(format!("{words} {} is there", FILES[0]));
        return Err(error.hint("install the package ca-certificates, or name a file with --ca-bundle"));
    }
    Ok(found)
}

/// The variables replace what is usual, as OpenSSL has it; otherwise the first file that has any, then the folders.
fn system_roots(environment: &Environment) -> Vec<CertificateDer<'static>> {
    let (file, folders) = (environment.get("SSL_CERT_FILE"), environment.get("SSL_CERT_DIR"));
    if file.is_some() || folders.is_some() {
        let folders = folders.iter().flat_map(|list| list.split(':')).filter(|folder| !folder.is_empty());
        return file.iter().map(String::as_str).chain(folders).flat_map(|path| certificates(Path::new(path)).unwrap_or_default()).collect();
    }
    let mut places = FILES.iter().chain(&FOLDERS);
    places.find_map(|path| certificates(Path::new(path)).ok().filter(|found| !found.is_empty())).unwrap_or_default()
}

/// All certificates of a file, or of the files of a folder. What else is in a file, and what else a folder has, is passed by.
fn certificates(path: &Path) -> std::io::Result<Vec<CertificateDer<'static>>> {
    if !std::fs::metadata(path)?.is_dir() {
        return Ok(of_pem(&std::fs::read(path)?));
    }
    let mut found = Vec::new();
    for file in std::fs::read_dir(path)? {
        if let Ok(text) = std::fs::read(file?.path()) {
            found.extend(of_pem(&text));
        }
    }
    Ok(found)
}

fn of_pem(text: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(text).filter_map(|one| one.ok()).collect()
}

/// The proxy for an endpoint, with curl's rules: the scheme's own variable, then `ALL_PROXY`; small letters or capitals, and
/// `NO_PROXY` names hosts that are reached directly.
fn proxy(endpoint: &Uri, environment: &Environment) -> Result<Option<Proxy>> {
    let names: &[&'static str] = match endpoint.scheme_str() {
        Some("https") => &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
        _ => &["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
    };
    let host = endpoint.host().unwrap_or("");
    let Some((name, url)) = environment.first(names) else {
        return Ok(None);
    };
    let (_, direct) = environment.first(&["no_proxy", "NO_PROXY"]).unwrap_or_default();
    if direct.split([',', ' ']).any(|entry| covers(entry.trim(), host)) {
        return Ok(None);
    }
    // The variable may hold a password: it is not repeated.
    Proxy::new(&url).map(Some).map_err(|_| usage(format!("what the variable {name} holds is no proxy's address")))
}

/// Whether an entry of `NO_PROXY` covers a host: `*`, the name itself or a domain above it (with or without a dot before),
/// an address, or a network such as `10.0.0.0/8`.
fn covers(entry: &str, host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    let entry = entry.trim_start_matches('[').trim_end_matches(']');
    if entry == "*" {
        return true;
    }
    if let Ok(address) = host.parse::<std::net::IpAddr>() {
        let (network, bits) = entry.split_once('/').map_or((entry, None), |(network, bits)| (network, Some(bits)));
        let Ok(network) = network.parse::<std::net::IpAddr>() else {
            return false;
        };
        return bits.map_or(network == address, |bits| bits.parse().is_ok_and(|bits| within(address, network, bits)));
    }
    let domain = entry.trim_start_matches("*.").trim_matches('.');
    if domain.is_empty() || domain.len() > host.len() {
        return false;
    }
    // Compared as bytes, for the cut may be inside of a character.
    let (front, back) = host.as_bytes().split_at(host.len() - domain.len());
    back.eq_ignore_ascii_case(domain.as_bytes()) && (front.is_empty() || front.ends_with(b"."))
}

fn within(address: std::net::IpAddr, network: std::net::IpAddr, bits: u32) -> bool {
    use std::net::IpAddr::{V4, V6};
    match (address, network) {
        (V4(a), V4(n)) if bits <= 32 => u32::from(a).checked_shr(32 - bits) == u32::from(n).checked_shr(32 - bits),
        (V6(a), V6(n)) if bits <= 128 => u128::from(a).checked_shr(128 - bits) == u128::from(n).checked_shr(128 - bits),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
