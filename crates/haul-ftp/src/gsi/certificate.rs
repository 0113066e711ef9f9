//! X.509 certificates (RFC 5280) and proxy certificates (RFC 3820), as far as grids need them: who was certified by whom, until
//! when, with which key. rustls and its webpki refuse proxies.

use haul_core::entry::show;

use super::der::{self, Reader, Signed};
use crate::facts::strftime;

/// Bytes of a certificate.
const MOST: usize = 1 << 20;

const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 17];
const PROXY_INFO: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 1, 14];

/// How a proxy says what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proxy {
    /// RFC 3820, with its policy language.
    Rfc(Vec<u8>),
    /// The last part of the subject is this word: `proxy` or `limited proxy`.
    Legacy(Vec<u8>),
}

#[derive(Clone, Debug)]
pub struct Certificate {
    /// All of it.
    der: Vec<u8>,
    pub serial: Vec<u8>,
    pub issuer: Vec<u8>,
    pub subject: Vec<u8>,
    /// In seconds since 1970.
    pub not_before: i64,
    pub not_after: i64,
    /// SubjectPublicKeyInfo.
    pub key: Vec<u8>,
    pub proxy: Option<Proxy>,
    /// It names hosts in its subjectAltName: its common name is none.
    pub names_hosts: bool,
}

impl Certificate {
    /// `None` for what is no certificate.
    pub fn parse(bytes: &[u8]) -> Option<Certificate> {
        let bytes = bytes.get(..bytes.len().min(MOST))?;
        let mut fields = Reader(Signed::parse(bytes)?.signed.content);
        // The version, which may be missing, and the serial number.
        let _ = fields.take(der::context(0));
        let serial = fields.take(der::INTEGER)?.content.to_vec();
        fields.take(der::SEQUENCE)?;
        let issuer = fields.take(der::SEQUENCE)?.whole.to_vec();
        let mut validity = fields.inside(der::SEQUENCE)?;
        let (not_before, not_after) = (time(&mut validity)?, time(&mut validity)?);
        let subject = fields.take(der::SEQUENCE)?.whole.to_vec();
        let key = fields.take(der::SEQUENCE)?.whole.to_vec();
        let mut found =
            Certificate { der: bytes.to_vec(), proxy: None, serial, issuer, subject, not_before, not_after, key, names_hosts: false };
        while let Some(field) = fields.any() {
            if field.tag == der::context(3) {
                found.read_extensions(Reader(field.content).inside(der::SEQUENCE)?)?;
            }
        }
        if found.proxy.is_none() {
            let word = last_common_name(&found.subject).filter(|word| matches!(word.as_slice(), b"proxy" | b"limited proxy"));
            found.proxy = word.map(Proxy::Legacy);
        }
        Some(found)
    }

    fn read_extensions(&mut self, mut extensions: Reader<'_>) -> Option<()> {
        while let Some(extension) = extensions.any() {
            let mut fields = Reader(extension.content);
            let id = fields.take(der::OBJECT)?.content;
            let _critical = fields.take(der::BOOLEAN);
            let value = fields.take(der::OCTET_STRING)?.content;
            if id == ALTERNATIVE_NAMES {
                let mut names = Reader(value).inside(der::SEQUENCE)?;
                while let Some(name) = names.any() {
                    // dNSName, iPAddress
                    self.names_hosts |= matches!(name.tag, 0x82 | 0x87);
                }
            } else if id == PROXY_INFO {
                let mut info = Reader(value).inside(der::SEQUENCE)?;
                // How many may follow it.
                let _ = info.take(der::INTEGER);
                let language = info.inside(der::SEQUENCE)?.take(der::OBJECT)?.content;
                self.proxy = Some(Proxy::Rfc(language.to_vec()));
            }
        }
        Some(())
    }

    /// The last common name of the subject.
    pub fn common_name(&self) -> Option<Vec<u8>> {
        last_common_name(&self.subject)
    }

    /// Whether it is a proxy that `issuer` issued: signed by its key, and named below it (RFC 3820, section 3.4).
    pub fn is_proxy_of(&self, issuer: &Certificate) -> bool {
        let below = |whole: &[u8]| Reader(whole).inside(der::SEQUENCE).map(|names| names.0.to_vec());
        let (Some(own), Some(above)) = (below(&self.subject), below(&issuer.subject)) else { return false };
        let mut rest = Reader(own.strip_prefix(above.as_slice()).unwrap_or_default());
        let one_more = rest.take(der::SET).is_some() && rest.is_empty();
        self.proxy.is_some()
            && self.issuer == issuer.subject
            && one_more
            && Signed::parse(&self.der).is_some_and(|own| own.is_by(&issuer.key))
    }

    pub fn is_valid_at(&self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }

    pub fn shown_subject(&self) -> String {
        shown_name(&self.subject)
    }

    pub fn shown_issuer(&self) -> String {
        shown_name(&self.issuer)
    }
}

/// Seconds since 1970 of a UTCTime or GeneralizedTime.
pub fn time(fields: &mut Reader<'_>) -> Option<i64> {
    let element = fields.any()?;
    let text = std::str::from_utf8(element.content).ok()?.strip_suffix('Z')?;
    let whole = match element.tag {
        // Two digits of a year: those from 50 on are of the last century.
        der::UTC_TIME if text.is_ascii() && text.len() == 12 => format!("{}{text}", if text < "50" { "20" } else { "19" }),
        der::GENERALIZED_TIME => text.to_string(),
        _ => return None,
    };
    crate::facts::time(&whole).map(|time| time.secs)
}

/// `20300102030405Z`, or with two digits of the year, as an element.
pub fn time_element(seconds: i64) -> Vec<u8> {
    let text = strftime("%Y%m%d%H%M%SZ", seconds);
    match ("1950".."2050").contains(&text.as_str()) {
        true => der::element(der::UTC_TIME, &[&text.as_bytes()[2..]]),
        false => der::element(der::GENERALIZED_TIME, &[text.as_bytes()]),
    }
}

fn last_common_name(name: &[u8]) -> Option<Vec<u8>> {
    let mut parts = Reader(name).inside(der::SEQUENCE)?;
    let mut last = None;
    while let Some(part) = parts.any() {
        let mut pair = Reader(part.content).inside(der::SEQUENCE)?;
        last = (pair.take(der::OBJECT)?.content == COMMON_NAME).then(|| pair.any()).flatten();
    }
    last.map(|value| value.content.to_vec())
}

/// A common name, as a part of a subject.
pub fn common_name_part(name: &str) -> Vec<u8> {
    let pair = [der::element(der::OBJECT, &[COMMON_NAME]), der::element(der::PRINTABLE, &[name.as_bytes()])].concat();
    der::element(der::SET, &[&der::element(der::SEQUENCE, &[&pair])])
}

/// `/C=XX/O=Grid/CN=Some User`, as grids write names.
pub fn shown_name(name: &[u8]) -> String {
    let mut shown = String::new();
    let mut parts = Reader(name).inside(der::SEQUENCE).unwrap_or(Reader(&[]));
    while let Some(part) = parts.any() {
        let mut values = Reader(part.content);
        while let Some(mut pair) = values.inside(der::SEQUENCE) {
            let (Some(id), Some(value)) = (pair.take(der::OBJECT), pair.any()) else { break };
            let value: String = show(value.content).chars().take(100).collect();
            shown.push_str(&format!("/{}={value}", word_of(id.content)));
        }
        if shown.len() > 1000 {
            break;
        }
    }
    shown
}

fn word_of(id: &[u8]) -> &'static str {
    match id {
        COMMON_NAME => "CN",
        [0x55, 4, 6] => "C",
        [0x55, 4, 7] => "L",
        [0x55, 4, 8] => "ST",
        [0x55, 4, 10] => "O",
        [0x55, 4, 11] => "OU",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25] => "DC",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1] => "UID",
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1] => "emailAddress",
        _ => "?",
    }
}
