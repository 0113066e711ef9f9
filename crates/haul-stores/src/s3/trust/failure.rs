//! What the agent's failures mean, and what can be done about them.

use std::io;
use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Remedy};
use http::Uri;
use rustls::{CertificateError, Error as Tls, InvalidMessage};
use ureq::{Error as Failure, Timeout};

/// The failure of a request to `at`, told without the path. An `Error` that a body's reader gave comes out as it went in.
pub fn explained(failure: Failure, at: &Uri, op: &'static str) -> Error {
    let host = at.authority().map_or("the server", |authority| authority.as_str());
    let made = |kind, words: String| Error::new(kind, op).because(format!("{host}: {words}"));
    let soon = Remedy::After(Duration::from_secs(1));
    match failure {
        Failure::Timeout(Timeout::Connect | Timeout::Resolve) => {
            made(ErrorKind::TimedOut, "no connection within the time allowed".to_string()).remedy_is(soon)
        }
        Failure::Timeout(_) => made(ErrorKind::TimedOut, "no byte moved for too long".to_string()).remedy_is(soon),
        Failure::HostNotFound => made(ErrorKind::Usage, "there is no such host".to_string()).hint("check the endpoint's name"),
        Failure::Rustls(error) => of_tls(&error, &made),
        Failure::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<Tls>()) => match error.downcast() {
            Ok(error) => of_tls(&error, &made),
            Err(error) => of_io(error, &made, soon),
        },
        Failure::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<Error>()) => Error::from_io(error, op),
        Failure::Io(error) => of_io(error, &made, soon),
        Failure::Protocol(error) if at.scheme_str() == Some("http") => {
            made(ErrorKind::Usage, format!("its answer is no HTTP ({error})")).hint("if it speaks TLS, write https:// in the endpoint")
        }
        Failure::ConnectProxyFailed(words) => made(ErrorKind::Denied, format!("the proxy refuses: {words}")),
        Failure::InvalidProxyUrl => made(ErrorKind::Usage, "the proxy's address is none".to_string()),
        other => made(ErrorKind::Io, other.to_string()).remedy_is(Remedy::Again),
    }
}

fn of_tls(error: &Tls, made: &dyn Fn(ErrorKind, String) -> Error) -> Error {
    let hint = "name its certificate with --ca-bundle FILE, or, where nobody listens, use --no-verify-ssl";
    match error {
        Tls::InvalidMessage(InvalidMessage::InvalidContentType) => {
            made(ErrorKind::Usage, "it does not speak TLS".to_string()).hint("if it speaks plain HTTP, write http:// in the endpoint")
        }
        Tls::InvalidCertificate(CertificateError::UnknownIssuer) => {
            made(ErrorKind::Denied, "its certificate is signed by nobody who is trusted here".to_string()).hint(hint)
        }
        Tls::InvalidCertificate(why) => made(ErrorKind::Denied, format!("its certificate is not good: {why}")).hint(hint),
        other => made(ErrorKind::Denied, format!("TLS failed: {other}")),
    }
}

fn of_io(error: io::Error, made: &dyn Fn(ErrorKind, String) -> Error, soon: Remedy) -> Error {
    use io::ErrorKind as K;
    let kind = error.kind();
    let words = Error::io(error, "send").reason();
    match kind {
        K::ConnectionRefused => {
            let hint = "look at the endpoint's address (--endpoint-url, AWS_ENDPOINT_URL), and whether the service runs";
            made(ErrorKind::Broken, "nobody listens there".to_string()).remedy_is(soon).hint(hint)
        }
        K::HostUnreachable | K::NetworkUnreachable => made(ErrorKind::Broken, words).remedy_is(soon),
        K::TimedOut => made(ErrorKind::TimedOut, words).remedy_is(soon),
        // The server hung up: at once again, on a new connection.
        K::ConnectionReset | K::ConnectionAborted | K::BrokenPipe | K::UnexpectedEof => {
            made(ErrorKind::Io, format!("it hung up ({words})")).remedy_is(Remedy::Again)
        }
        _ if words.contains("Temporary failure in name resolution") => made(ErrorKind::Broken, words).remedy_is(soon),
        // What getaddrinfo(3) says comes without a kind.
        _ if words.contains("lookup") || words.contains("Name or service not known") => {
            made(ErrorKind::Usage, format!("there is no such host ({words})")).hint("check the endpoint's name")
        }
        _ => made(ErrorKind::Io, words).remedy_is(Remedy::Again),
    }
}
