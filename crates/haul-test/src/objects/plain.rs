//! Signed requests without haul, one connection each: what tests set up and look up with is not what they judge.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use ring::hmac;
use sha2::{Digest, Sha256};

use super::Endpoint;
use super::http::{Head, header, read_body};

/// No answer to a test takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a server answered.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a header, in whatever case it is written.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// This answer, or an error that shows it where it does not say that all went well.
    pub fn success(self) -> io::Result<Answer> {
        match self.status {
            200..300 => Ok(self),
            status => Err(io::Error::other(format!("status {status}: {}", self.text()))),
        }
    }
}

/// A request without a signature.
pub fn get(endpoint: &Endpoint, target: &str) -> io::Result<Answer> {
    send(endpoint, "GET", target, &[], b"")
}

/// A request with a signature (version 4). `target` is path and query as they are to be sent: encoded, the query's parts in the
/// order of their bytes and each with a `=`.
pub fn request(endpoint: &Endpoint, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Answer> {
    request_of(endpoint, "s3", method, target, headers, body)
}

/// The same for another service at the endpoint, as `sts`.
pub fn request_of(
    endpoint: &Endpoint,
    service: &str,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Answer> {
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let mut headers: Vec<_> = headers.iter().map(|(name, value)| (name.to_lowercase(), (*value).to_owned())).collect();
    headers.push(("x-amz-date".into(), now));
    headers.push(("x-amz-content-sha256".into(), hex(&Sha256::digest(body))));
    let signature = authorization(endpoint, service, method, target, &headers);
    headers.push(("authorization".into(), signature));
    send(endpoint, method, target, &headers, body)
}

/// Puts an object in a bucket that is there.
pub fn put(endpoint: &Endpoint, path: &str, body: &[u8]) -> io::Result<Answer> {
    request(endpoint, "PUT", path, &[], body)?.success()
}

fn send(endpoint: &Endpoint, method: &str, target: &str, headers: &[(String, String)], body: &[u8]) -> io::Result<Answer> {
    let mut head = Head { first: format!("{method} {target} HTTP/1.1"), headers: headers.to_vec() };
    head.headers.push(("host".into(), endpoint.host().into()));
    head.headers.push(("content-length".into(), body.len().to_string()));
    head.headers.push(("connection".into(), "close".into()));
    let mut message = Vec::new();
    head.write(&mut message)?;
    message.extend(body);
    if endpoint.url.starts_with("https:") {
        return exchange_sealed(endpoint, method, &message);
    }
    let stream = TcpStream::connect_timeout(&endpoint.address(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    (&stream).write_all(&message)?;
    receive(method, &mut BufReader::new(&stream))
}

/// Over TLS, by `openssl`; any certificate will do.
fn exchange_sealed(endpoint: &Endpoint, method: &str, message: &[u8]) -> io::Result<Answer> {
    let mut client = Command::new("timeout");
    client.args([&PATIENCE.as_secs().to_string(), "openssl", "s_client", "-quiet", "-connect", endpoint.host()]);
    let mut client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut to = client.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut from = BufReader::new(client.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
    // Its input stays open while it has something to say.
    let answer = to.write_all(message).and_then(|()| receive(method, &mut from));
    drop((to, from));
    // It may have ended.
    let _ = client.kill();
    client.wait()?;
    answer
}

fn receive(method: &str, from: &mut impl BufRead) -> io::Result<Answer> {
    let mut head = Head::read(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    while head.status()? == 100 {
        head = Head::read(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    }
    let length = head.answer_length(method)?;
    Ok(Answer { status: head.status()?, body: read_body(from, length)?, headers: head.headers })
}

/// All headers that are given are signed, and the host's. They have lower-case names.
fn authorization(endpoint: &Endpoint, service: &str, method: &str, target: &str, headers: &[(String, String)]) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let host = ("host".to_owned(), endpoint.host().to_owned());
    let mut signed: Vec<_> = headers.iter().chain([&host]).collect();
    signed.sort();
    let lines: String = signed.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let names = signed.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(";");
    let content = header(headers, "x-amz-content-sha256").unwrap_or_default();
    let date = header(headers, "x-amz-date").unwrap_or_default();
    let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{content}");
    let day = date.get(..8).unwrap_or_default();
    let scope = format!("{day}/{}/{service}/aws4_request", endpoint.region);
    let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let first = format!("AWS4{}", endpoint.secret).into_bytes();
    let key = [day, &*endpoint.region, service, "aws4_request", &*to_sign].iter().fold(first, |key, part| hmac(&key, part.as_bytes()));
    format!("AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={}", endpoint.access, hex(&key))
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the documentation of signatures, version 4: "GET Object".
    #[test]
    fn a_signature_is_as_documented() {
        let endpoint = Endpoint {
            url: "http://examplebucket.s3.amazonaws.com".into(),
            access: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            region: "us-east-1".into(),
        };
        let headers = [
            ("range", "bytes=0-9"),
            ("x-amz-content-sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("x-amz-date", "20130524T000000Z"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let signed = authorization(&endpoint, "s3", "GET", "/test.txt", &headers);
        assert!(signed.ends_with("f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"), "{signed}");
    }
}
