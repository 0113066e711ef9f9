//! Endpoints: what users write, and where AWS's regions are.

use std::fmt;

/// How a bucket is named in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Style {
    /// `https://host/bucket/key`
    Path,
    /// `https://bucket.host/key`
    Virtual,
}

impl Style {
    /// The style to try first: virtual hosts at AWS, where a certificate covers the name, paths anywhere else, as
    /// most other services want them.
    pub fn likely(endpoint: &Endpoint, bucket: &str) -> Style {
        let suits = super::check_new_bucket(bucket).is_ok() && !(endpoint.tls && bucket.contains('.'));
        if endpoint.is_aws() && suits { Style::Virtual } else { Style::Path }
    }
}

/// Where a service listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub tls: bool,
    /// Whether `http://` or `https://` was written; if not, https was supposed.
    pub scheme_said: bool,
    /// In lower case; an IPv6 address in its brackets.
    pub host: String,
    /// Only where it is not the scheme's own.
    pub port: Option<u16>,
    /// What stands before each path: empty, or encoded, with a slash at its start and none at its end.
    pub prefix: String,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(&self.prefix)
    }
}

impl Endpoint {
    /// Reads `https://host:port/prefix/`, of which all but the host can be left out. `Err` says what is wrong; it
    /// does not repeat a password.
    pub fn parse(text: &str) -> Result<Endpoint, String> {
        let text = text.trim();
        let (tls, scheme_said, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, true, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, true, rest),
            Some((scheme, _)) => return Err(format!("an endpoint begins with http:// or https://, not {:?}", format!("{scheme}://"))),
            None => (true, false, text),
        };
        if rest.contains(['?', '#']) {
            return Err("an endpoint has no '?' and no '#'".into());
        }
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        if authority.contains('@') {
            return Err("an endpoint has no user and no password: credentials come from the environment or a profile".into());
        }
        let (host, port) = split_port(authority)?;
        let host = host.to_ascii_lowercase();
        check_host(&host)?;
        let prefix = path.trim_end_matches('/');
        if prefix.contains("//") {
            return Err("the endpoint's path has two slashes in a row".into());
        }
        if let Some(c) = prefix.chars().find(|c| !c.is_ascii_graphic() || matches!(c, '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}'))
        {
            return Err(format!("the endpoint's path has {c:?} in it, which must be percent-encoded"));
        }
        let usual = if tls { 443 } else { 80 };
        Ok(Endpoint { tls, scheme_said, host, port: port.filter(|port| *port != usual), prefix: canonical(prefix) })
    }

    /// Where AWS has S3 in a region; an empty name is `us-east-1`.
    pub fn of_region(region: &str) -> Result<Endpoint, String> {
        let region = if matches!(region, "" | "aws-global") { "us-east-1" } else { region };
        if !region.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') || region.len() > 32 {
            return Err(format!("{region:?} is no region: they read like eu-central-1"));
        }
        const ELSEWHERE: [(&str, &str); 6] = [
            ("cn-", "amazonaws.com.cn"),
            ("us-iso-", "c2s.ic.gov"),
            ("us-isob-", "sc2s.sgov.gov"),
            ("us-isof-", "csp.hci.ic.gov"),
            ("eu-isoe-", "cloud.adc-e.uk"),
            ("eusc-", "amazonaws.eu"),
        ];
        let domain = ELSEWHERE.iter().find(|(before, _)| region.starts_with(before)).map_or("amazonaws.com", |(_, domain)| domain);
        Ok(Endpoint { tls: true, scheme_said: true, host: format!("s3.{region}.{domain}"), port: None, prefix: String::new() })
    }

    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// The port that is connected to.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.tls { 443 } else { 80 })
    }

    /// Whether it is AWS's own.
    pub fn is_aws(&self) -> bool {
        ["amazonaws.com", "amazonaws.com.cn", "amazonaws.eu"]
            .iter()
            .any(|domain| self.host.strip_suffix(domain).is_some_and(|before| before.ends_with('.')))
    }

    /// The region that the host's name tells, where it is AWS's.
    pub fn region(&self) -> Option<&str> {
        if !self.is_aws() {
            return None;
        }
        let mut labels = self.host.split('.').skip_while(|label| !matches!(*label, "s3" | "s3-fips"));
        labels.next()?;
        labels.find(|label| *label != "dualstack").filter(|label| label.contains('-'))
    }
}

/// A path in the one form that is signed: escapes in capitals, and none without need.
fn canonical(path: &str) -> String {
    let mut text = String::new();
    for (n, part) in path.split('/').enumerate() {
        if n > 0 {
            text.push('/');
        }
        let plain = super::decode(part);
        super::encode(&mut text, plain.as_deref().unwrap_or(part.as_bytes()), false);
    }
    text
}

/// `host`, `host:port`, `[::1]`, `[::1]:port`.
fn split_port(authority: &str) -> Result<(&str, Option<u16>), String> {
    let colon = match authority.rfind(']') {
        Some(bracket) if authority.len() == bracket + 1 => None,
        Some(bracket) => Some(bracket + 1),
        None => authority.find(':'),
    };
    let Some((host, port)) = colon.and_then(|colon| authority.split_at_checked(colon)) else { return Ok((authority, None)) };
    let digits = port.strip_prefix(':').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    match digits {
        Some("") => Ok((host, None)),
        Some(digits) => match digits.parse() {
            Ok(port) if port != 0 => Ok((host, Some(port))),
            _ => Err(format!("{digits} is no port")),
        },
        None if host.contains('[') || port.matches(':').count() == 1 => Err(format!("{:?} is no port", port.trim_start_matches(':'))),
        None => Err("an IPv6 address stands in brackets: [::1]:9000".into()),
    }
}

fn check_host(host: &str) -> Result<(), String> {
    if host.is_empty() {
        return Err("the endpoint has no host".into());
    }
    if let Some(inside) = host.strip_prefix('[') {
        let address = inside.strip_suffix(']').and_then(|address| address.parse::<std::net::Ipv6Addr>().ok());
        return address.map(drop).ok_or_else(|| format!("{host:?} is no IPv6 address"));
    }
    if let Some(c) = host.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '.' | '_')) {
        return Err(format!("the endpoint's host has {c:?} in it"));
    }
    if host.len() > 253 || host.trim_end_matches('.').split('.').any(|label| label.is_empty() || label.len() > 63) {
        return Err(format!("{host:?} is no host"));
    }
    Ok(())
}
