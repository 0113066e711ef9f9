//! Endpoints: what users write, and where AWS's regions are.

use std::fmt;

use http::Uri;

/// How a bucket is named in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Style {
    Path,
    Virtual,
}

impl Style {
    /// The style to try first: virtual hosts at AWS, whose certificate covers the name, paths elsewhere.
    pub fn likely(endpoint: &Endpoint, bucket: &str) -> Style {
        let suits = super::check_new_bucket(bucket).is_ok() && !(endpoint.tls && bucket.contains('.'));
        if endpoint.is_aws() && suits { Style::Virtual } else { Style::Path }
    }
}

/// Which of Amazon's endpoints for S3 in a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    pub fips: bool,
    pub dual_stack: bool,
    /// By Amazon's own network from near the client.
    pub accelerate: bool,
}

impl Variant {
    pub fn word(self) -> Option<&'static str> {
        let words = [(self.fips, "FIPS"), (self.dual_stack, "dual-stack"), (self.accelerate, "accelerate")];
        words.into_iter().find_map(|(is, word)| is.then_some(word))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub tls: bool,
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
    /// Reads `https://host:port/prefix/`, of which scheme, port and prefix can be left out. `None` for what is no such address.
    pub fn parse(text: &str) -> Option<Endpoint> {
        let text = text.trim().trim_end_matches('/');
        if !text.is_ascii() || text.contains(['@', '?', '#']) {
            return None;
        }
        let text = if text.contains("://") { text.to_string() } else { format!("https://{text}") };
        let uri: Uri = text.parse().ok()?;
        let tls = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let host = uri.host().filter(|host| is_host(host))?;
        // The library passes over a port that is none.
        let port = match uri.authority()?.as_str().strip_prefix(host)? {
            "" => None,
            port => Some(port.strip_prefix(':')?.parse().ok().filter(|port| *port > 0)?),
        };
        let usual: u16 = if tls { 443 } else { 80 };
        let prefix = uri.path().trim_end_matches('/');
        if prefix.contains("//") {
            return None;
        }
        Some(Endpoint { tls, host: host.to_ascii_lowercase(), port: port.filter(|port| *port != usual), prefix: canonical(prefix) })
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
        Ok(Endpoint { tls: true, host: format!("s3.{region}.{domain}"), port: None, prefix: String::new() })
    }

    /// In another variant, for one of [`Endpoint::of_region`]. Accelerated are only requests for what is in a bucket.
    #[must_use]
    pub fn of_variant(self, variant: Variant, within_bucket: bool) -> Endpoint {
        let (name, stack) = (if variant.fips { "s3-fips." } else { "s3." }, if variant.dual_stack { "dualstack." } else { "" });
        let host = match self.host.strip_prefix("s3.") {
            Some(_) if variant.accelerate && within_bucket => format!("s3-accelerate.{stack}amazonaws.com"),
            Some(rest) => format!("{name}{stack}{rest}"),
            None => self.host,
        };
        Endpoint { host, ..self }
    }

    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    pub fn is_aws(&self) -> bool {
        ["amazonaws.com", "amazonaws.com.cn", "amazonaws.eu"]
            .iter()
            .any(|domain| self.host.strip_suffix(domain).is_some_and(|before| before.ends_with('.')))
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

fn is_host(host: &str) -> bool {
    let is_label = |label: &str| {
        (1..64).contains(&label.len()) && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    match host.strip_prefix('[').and_then(|inside| inside.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.len() <= 253 && host.trim_end_matches('.').split('.').all(is_label),
    }
}
