//! Lists of revoked certificates (RFC 5280, section 5), of version 1 too, which webpki does not read.

use super::certificate::{Certificate, time};
use super::der::{self, Reader, Signed};

/// One list, read as far as its issuer: most of a directory's lists are never needed.
#[derive(Debug)]
struct List {
    bytes: Vec<u8>,
    issuer: Vec<u8>,
}

/// All lists of a directory, and the certificates of those who sign them.
#[derive(Debug, Default)]
pub struct Revoked {
    lists: Vec<List>,
    authorities: Vec<Certificate>,
}

/// Why a certificate is not believed.
#[derive(Debug, PartialEq, Eq)]
pub enum Why {
    Revoked,
    /// The list has ended.
    Old,
    /// The list is not signed by its issuer.
    Forged,
}

/// What is needed of a list.
struct Parsed<'a> {
    whole: Signed<'a>,
    issuer: &'a [u8],
    until: Option<i64>,
    entries: Reader<'a>,
}

impl Parsed<'_> {
    fn of(bytes: &[u8]) -> Option<Parsed<'_>> {
        let whole = Signed::parse(bytes)?;
        let mut fields = Reader(whole.signed.content);
        // Version 1 does not say so.
        let _ = fields.take(der::INTEGER);
        fields.take(der::SEQUENCE)?;
        let issuer = fields.take(der::SEQUENCE)?.whole;
        time(&mut fields)?;
        let ends = matches!(fields.peek(), Some(der::UTC_TIME | der::GENERALIZED_TIME));
        let until = if ends { Some(time(&mut fields)?) } else { None };
        let entries = fields.inside(der::SEQUENCE).unwrap_or(Reader(&[]));
        Some(Parsed { whole, issuer, until, entries })
    }

    /// `None` for what is no list.
    fn names(mut self, serial: &[u8]) -> Option<bool> {
        while !self.entries.is_empty() {
            if self.entries.inside(der::SEQUENCE)?.take(der::INTEGER)?.content == serial {
                return Some(true);
            }
        }
        Some(false)
    }
}

impl Revoked {
    pub fn add_authority(&mut self, authority: Certificate) {
        self.authorities.push(authority);
    }

    /// Whether the bytes are a list.
    pub fn add(&mut self, bytes: Vec<u8>) -> bool {
        let issuer = Parsed::of(&bytes).map(|list| list.issuer.to_vec());
        let Some(issuer) = issuer else { return false };
        self.lists.push(List { bytes, issuer });
        true
    }

    /// The first of the certificates that may not be believed at `now`. One whose issuer has no list may.
    pub fn find<'a>(&self, chain: &'a [Certificate], now: i64) -> Option<(&'a Certificate, Why)> {
        chain.iter().find_map(|certificate| self.state(certificate, chain, now).map(|why| (certificate, why)))
    }

    fn state(&self, certificate: &Certificate, chain: &[Certificate], now: i64) -> Option<Why> {
        let lists = self.lists.iter().filter(|list| list.issuer == certificate.issuer).filter_map(|list| Parsed::of(&list.bytes));
        let states = lists.map(|list| {
            let mut signers = self.authorities.iter().chain(chain).filter(|signer| signer.subject == certificate.issuer);
            if !signers.any(|signer| list.whole.is_by(&signer.key)) {
                return Some(Why::Forged);
            }
            let is_old = list.until.is_some_and(|until| now > until);
            match list.names(&certificate.serial) {
                Some(true) => Some(Why::Revoked),
                Some(false) if is_old => Some(Why::Old),
                Some(false) => None,
                None => Some(Why::Forged),
            }
        });
        // Of several lists one that is good and in time does not help against one that names it.
        let states: Vec<Option<Why>> = states.collect();
        let good = states.contains(&None);
        states.into_iter().flatten().find(|why| !good || *why == Why::Revoked)
    }
}
