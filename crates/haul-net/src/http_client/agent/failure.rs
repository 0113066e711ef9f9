//! The agent's failures as errors with a remedy.

use std::io;
use std::time::Duration;

use haul_core::entry::Time;
use haul_core::error::{Error, ErrorKind, Remedy};
use http::Uri;
use rustls::pki_types::UnixTime;
use rustls::{CertificateError, Error as Tls, InvalidMessage};
use ureq::{Error as Failure, Proxy, Timeout};

use crate::http_client::time;

/// The failure of a request to `at`, without the path, or to the proxy through which it went. An `Error` of a request body's
/// reader comes out as it went in.
pub fn request_error(failure: Failure, at: &Uri, proxy: Option<&Proxy>, op: &'static str) -> Error {
    let host = at.authority().map_or("the server", |authority| authority.as_str());
    let made = |kind, words: String| Error::new(kind, op).because(format!("{host}: {words}"));
    let soon = Remedy::After(Duration::from_secs(1));
    if let Some(proxy) = proxy
        && let Some((kind, words, remedy)) = of_proxy(&failure)
    {
        let (host, port) = (proxy.host(), proxy.port());
        let e = Error::new(kind, op).because(format!("the proxy {host}:{port} {words}")).remedy_is(remedy);
        return e.hint("check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY, or name the host in NO_PROXY");
    }
    match failure {
        Failure::Timeout(Timeout::Connect | Timeout::Resolve) => {
            made(ErrorKind::TimedOut, "connection timed out".to_string()).remedy_is(soon)
        }
        Failure::Timeout(_) => made(ErrorKind::TimedOut, "idle timeout: no data received or sent".to_string()).remedy_is(soon),
        Failure::HostNotFound => made(ErrorKind::Usage, "unknown host".to_string()).hint("check the host's name"),
        Failure::Rustls(error) => of_tls(&error, &made),
        Failure::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<Tls>()) => match error.downcast() {
            Ok(error) => of_tls(&error, &made),
            Err(error) => of_io(error, &made, soon),
        },
        Failure::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<Error>()) => Error::from_io(error, op),
        Failure::Io(error) => of_io(error, &made, soon),
        Failure::Protocol(error) if at.scheme_str() == Some("http") => {
            made(ErrorKind::Usage, format!("its answer is not HTTP ({error})")).hint("if it speaks TLS, write https:// in the endpoint")
        }
        Failure::ConnectProxyFailed(words) => {
            let proxy = proxy.map_or_else(String::new, |proxy| format!(" {}:{}", proxy.host(), proxy.port()));
            made(ErrorKind::Denied, format!("the proxy{proxy} refused: {words}"))
        }
        // Another try would get the same.
        Failure::LargeResponseHeader(_, most) => made(ErrorKind::Unsupported, format!("its answer has a header of more than {most} bytes")),
        Failure::InvalidProxyUrl => made(ErrorKind::Usage, "the proxy's address is none".to_string()),
        other => made(ErrorKind::Io, other.to_string()).remedy_is(Remedy::Again),
    }
}

/// What keeps the proxy itself from being reached: it is the only host that is connected to and looked up.
fn of_proxy(failure: &Failure) -> Option<(ErrorKind, String, Remedy)> {
    use io::ErrorKind as K;
    let soon = |kind, words: String| Some((kind, words, Remedy::After(Duration::from_secs(1))));
    // What no other try changes is not tried again.
    let unknown = || Some((ErrorKind::Broken, "is an unknown host".to_string(), Remedy::None));
    match failure {
        Failure::Timeout(Timeout::Connect | Timeout::Resolve) => soon(ErrorKind::TimedOut, "does not answer".to_string()),
        Failure::HostNotFound => unknown(),
        Failure::Io(error) => match error.kind() {
            K::ConnectionRefused => soon(ErrorKind::Broken, "cannot be reached: nobody listens there".to_string()),
            K::HostUnreachable | K::NetworkUnreachable => soon(ErrorKind::Broken, format!("cannot be reached: {error}")),
            _ if is_unknown_host(&error.to_string()) => unknown(),
            _ => None,
        },
        _ => None,
    }
}

/// What getaddrinfo(3) says comes without a kind.
fn is_unknown_host(words: &str) -> bool {
    words.contains("lookup") || words.contains("Name or service not known")
}

/// A connection that nobody vouches for is none: the whole run ends.
fn of_tls(error: &Tls, made: &dyn Fn(ErrorKind, String) -> Error) -> Error {
    let hint = "name its CA with --ca-bundle FILE, or use --no-verify-ssl (insecure)";
    match error {
        Tls::InvalidMessage(InvalidMessage::InvalidContentType) => {
            made(ErrorKind::Usage, "it does not speak TLS".to_string()).hint("if it speaks plain HTTP, write http:// in the endpoint")
        }
        Tls::InvalidCertificate(CertificateError::UnknownIssuer) => {
            made(ErrorKind::Broken, "its certificate is not signed by a trusted authority".to_string()).hint(hint)
        }
        Tls::InvalidCertificate(why) => match in_words(why) {
            (words, "") => made(ErrorKind::Broken, words).hint(hint),
            (words, other) => made(ErrorKind::Broken, words).hint(other.to_string()),
        },
        other => made(ErrorKind::Broken, format!("TLS failed: {other}")),
    }
}

/// What is wrong with a certificate, and what can be done where another authority is no help.
fn in_words(why: &CertificateError) -> (String, &'static str) {
    let date = |at: &UnixTime| {
        let date = Time { secs: at.as_secs().cast_signed(), nanos: 0 };
        time::http_text(date).map(|date| format!(" ({date})")).unwrap_or_default()
    };
    let renew = "whoever runs the server has to renew it; check this machine's clock, too";
    let name = "use the name that the certificate is for, or check the address";
    match why {
        CertificateError::ExpiredContext { not_after, .. } => (format!("its certificate has expired{}", date(not_after)), renew),
        CertificateError::Expired => ("its certificate has expired".into(), renew),
        CertificateError::NotValidYetContext { not_before, .. } => {
            (format!("its certificate is not valid yet{}", date(not_before)), "check this machine's clock")
        }
        CertificateError::NotValidYet => ("its certificate is not valid yet".into(), "check this machine's clock"),
        CertificateError::NotValidForNameContext { presented, .. } => {
            // In the form `DnsName("a.example")`.
            let inner = |name: &String| name.split_once('(').map_or(&name[..], |(_, rest)| rest).trim_matches(['"', ')']).to_string();
            let names: Vec<String> = presented.iter().take(5).map(inner).collect();
            (format!("its certificate is for another name: {}", names.join(", ")), name)
        }
        CertificateError::NotValidForName => ("its certificate is for another name".into(), name),
        CertificateError::Revoked => ("its certificate has been revoked".into(), ""),
        other if other.to_string().contains("CaUsedAsEndEntity") => ("its certificate is that of an authority, not of a server".into(), ""),
        other => (format!("invalid certificate: {other}"), ""),
    }
}

fn of_io(error: io::Error, made: &dyn Fn(ErrorKind, String) -> Error, soon: Remedy) -> Error {
    use io::ErrorKind as K;
    let kind = error.kind();
    let words = Error::io(error, "send").reason();
    match kind {
        K::ConnectionRefused => {
            let hint = "check the address (of an object store: --endpoint-url, AWS_ENDPOINT_URL), and whether the server runs";
            made(ErrorKind::Broken, "nobody listens there".to_string()).remedy_is(soon).hint(hint)
        }
        K::HostUnreachable | K::NetworkUnreachable => made(ErrorKind::Broken, words).remedy_is(soon),
        K::TimedOut => made(ErrorKind::TimedOut, words).remedy_is(soon),
        // The server hung up: at once again, on a new connection.
        K::ConnectionReset | K::ConnectionAborted | K::BrokenPipe | K::UnexpectedEof => {
            made(ErrorKind::Io, format!("connection closed ({words})")).remedy_is(Remedy::Again)
        }
        _ if words.contains("Temporary failure in name resolution") => made(ErrorKind::Broken, words).remedy_is(soon),
        _ if is_unknown_host(&words) => made(ErrorKind::Usage, format!("unknown host ({words})")).hint("check the host's name"),
        _ => made(ErrorKind::Io, words).remedy_is(Remedy::Again),
    }
}

/// The failure of a read from a body. An `Error` in it comes out as it went in.
pub fn read_error(op: &'static str, io: &io::Error, server: &str) -> Error {
    use io::ErrorKind as K;
    if let Some(inner) = io.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        return inner.again();
    }
    let (kind, reason) = match io.kind() {
        K::TimedOut | K::WouldBlock => (ErrorKind::TimedOut, format!("{server} did not answer in time")),
        K::UnexpectedEof | K::ConnectionReset | K::ConnectionAborted | K::BrokenPipe | K::NotConnected => {
            (ErrorKind::Io, format!("{server} closed the connection"))
        }
        K::ConnectionRefused | K::HostUnreachable | K::NetworkUnreachable | K::AddrNotAvailable => {
            (ErrorKind::Broken, format!("{server} cannot be reached: {io}"))
        }
        _ => (ErrorKind::Io, format!("{server}: {io}")),
    };
    Error::new(kind, op).remedy_is(Remedy::After(Duration::from_millis(300))).because(reason)
}
