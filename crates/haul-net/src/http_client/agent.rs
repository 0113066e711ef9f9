//! The agent that requests go through: certificates, proxy, timeouts.
//!
//! - **TLS** by rustls with ring. Roots are the machine's own, read here because rustls-native-certs skips files of a folder
//!   that have no hash for a name. A named bundle *replaces* them, as with the AWS command line.
//! - **A certificate that is itself in the bundle is accepted**, even one that is marked as an authority: see `verify.rs`.
//! - **Timeouts**: ten seconds to connect, TLS handshake included, and an idle timeout for each read and write, none for the
//!   whole: a body may take hours as long as it moves.
//! - **The proxy** is chosen once, by scheme and host of the endpoint, as curl does. It is always asked to CONNECT, for `http://`
//!   too; one that allows that only to port 443 serves only `https://`.
//! - **Names** are looked up again after ten seconds and their addresses used in turn: S3 answers with several addresses so that
//!   clients spread over them.
//! - **No redirects** (a signature is for one host), no statuses as errors (the body says why), no compression.
//! - **Buffers** of 128 KiB each way, two for a connection and four with TLS, allocated when first used. Over loopback a GiB
//!   takes 0.23 to 0.30 CPU seconds to upload with any buffer, 0.47 to download with 16 KiB, 0.20 to 0.40 with 128 KiB or more;
//!   with TLS 0.3 to upload and 0.5 to download.

mod failure;
mod resolver;
mod tls;
mod verify;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Result};
use http::Uri;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use ureq::config::AutoHeaderValue;
use ureq::unversioned::transport::{ConnectProxyConnector, Connector, SocksConnector, TcpConnector};
use ureq::{Agent, Proxy};

pub use self::failure::{read_error, request_error};
use self::resolver::Addresses;
use self::tls::TlsConnector;
use super::environment::Environment;

/// Bytes in each buffer of a connection.
pub const BUFFER: usize = 128 << 10;

/// How long an idle connection is kept: servers close theirs after 20 seconds (S3) or more, and a request on a closing one is
/// lost.
const KEPT: Duration = Duration::from_secs(15);

/// Files in which distributions keep all certificates: Debian and Arch, Fedora and RHEL, openSUSE, newer RHEL, Alpine.
const FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
const FOLDERS: [&str; 2] = ["/etc/ssl/certs", "/etc/pki/tls/certs"];

#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Its scheme and host decide about certificates and proxy.
    pub endpoint: Uri,
    /// Whether certificates are verified. The caller prints a warning when they are not.
    pub verify: bool,
    /// Certificates in place of the system's: a file of them in PEM, or a folder of such files.
    pub ca_bundle: Option<PathBuf>,
    /// Timeout for connecting, handshakes included.
    pub connect: Duration,
    /// Timeout for each single wait to read or to write.
    pub idle_timeout: Duration,
    /// Idle connections kept for later requests.
    pub connections: usize,
    /// Bytes in each buffer.
    pub buffer: usize,
    /// Whether to go through a proxy if the environment names one.
    pub use_proxy: bool,
    pub environment: Environment,
}

impl AgentConfig {
    /// For an endpoint, with certificates verified and the default timeouts.
    pub fn of(endpoint: Uri, environment: Environment) -> AgentConfig {
        AgentConfig {
            endpoint,
            verify: true,
            ca_bundle: None,
            connect: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            connections: 512,
            buffer: BUFFER,
            use_proxy: true,
            environment,
        }
    }
}

/// An agent for one endpoint: cheap to clone, for any number of threads.
///
/// # Errors
/// `Usage`: a bundle that cannot be read or has no certificate, a proxy that is not an address, a machine without certificates.
pub fn agent(config: &AgentConfig) -> Result<Agent> {
    let proxy = if config.use_proxy { proxy(&config.endpoint, &config.environment)? } else { None };
    let schemes = [config.endpoint.scheme_str(), proxy.as_ref().and_then(|proxy| proxy.uri().scheme_str())];
    let roots = if config.verify && schemes.contains(&Some("https")) {
        roots(config.ca_bundle.as_deref(), &config.environment)?
    } else {
        Vec::new()
    };
    let tls = Arc::new(verify::config(roots, config.verify, rustls::DEFAULT_VERSIONS)?);
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .no_delay(true)
        .proxy(proxy)
        .user_agent(concat!("haul/", env!("CARGO_PKG_VERSION")))
        .accept(AutoHeaderValue::None)
        .accept_encoding("identity")
        .timeout_resolve(Some(config.connect))
        .timeout_connect(Some(config.connect))
        .timeout_per_read(Some(config.idle_timeout))
        .timeout_per_write(Some(config.idle_timeout))
        .input_buffer_size(config.buffer)
        .output_buffer_size(config.buffer)
        .max_idle_connections(config.connections)
        .max_idle_connections_per_host(config.connections)
        .max_idle_age(KEPT)
        .build();
    let connector =
        ().chain(SocksConnector::default()).chain(ConnectProxyConnector::default()).chain(TcpConnector::default()).chain(TlsConnector(tls));
    Ok(Agent::with_parts(config, connector, Addresses::default()))
}

/// What TLS connections beside HTTP's are made with: by version 1.2 of the protocol, and by 1.3.
///
/// # Errors
/// Those of [`agent`] about certificates.
pub fn tls_configs(verify: bool, ca_bundle: Option<&Path>, environment: &Environment) -> Result<[Arc<rustls::ClientConfig>; 2]> {
    let roots = if verify { roots(ca_bundle, environment)? } else { Vec::new() };
    let by = |version| verify::config(roots.clone(), verify, &[version]).map(Arc::new);
    Ok([by(&rustls::version::TLS12)?, by(&rustls::version::TLS13)?])
}

/// Agents by origin: each origin has its own certificates and proxy.
#[derive(Debug)]
pub struct Agents {
    /// For all of them but for its endpoint.
    common: AgentConfig,
    by_origin: Mutex<HashMap<String, Agent>>,
}

impl Agents {
    pub fn new(common: AgentConfig) -> Agents {
        Agents { common, by_origin: Mutex::default() }
    }

    pub fn environment(&self) -> &Environment {
        &self.common.environment
    }

    /// The agent for the origin of `url`; `adapt` changes the common settings for a new one.
    ///
    /// # Errors
    /// Those of [`agent`].
    pub fn get(&self, url: &Uri, adapt: impl FnOnce(AgentConfig) -> AgentConfig) -> Result<Agent> {
        let origin = format!("{}://{}", url.scheme_str().unwrap_or_default(), url.authority().map_or("", |authority| authority.as_str()));
        let mut agents = self.by_origin.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = agents.get(&origin) {
            return Ok(known.clone());
        }
        let new = agent(&adapt(AgentConfig { endpoint: url.clone(), ..self.common.clone() }))?;
        agents.insert(origin, new.clone());
        Ok(new)
    }
}

fn usage(words: String) -> Error {
    Error::new(ErrorKind::Usage, "set up connections").because(words)
}

/// The certificates to trust: the bundle's, or the system's.
fn roots(ca_bundle: Option<&Path>, environment: &Environment) -> Result<Vec<CertificateDer<'static>>> {
    if let Some(bundle) = ca_bundle {
        let found = certificates(bundle).map_err(|error| {
            usage(format!("the certificates in {} cannot be read: {}", bundle.display(), Error::io(error, "read").reason()))
        })?;
        if found.is_empty() {
            return Err(usage(format!("{} has no certificate in PEM (-----BEGIN CERTIFICATE-----)", bundle.display())));
        }
        return Ok(found);
    }
    let found = system_roots(environment);
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

/// All certificates of a file, or of the files of a folder. Anything else is skipped.
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
    Proxy::new(&url).map(Some).map_err(|_| usage(format!("the variable {name} does not hold a proxy's address")))
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
