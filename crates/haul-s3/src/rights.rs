//! Who may do what with an object or a bucket: its access control list.

use std::collections::BTreeMap;

use haul_core::error::{Error, ErrorKind, Result};
use http::Method;

use super::Bucket;
use super::call::Body;
use super::fault;
use super::xml;
pub use super::xml::{Acl, Grant, Grantee};

/// The rights that a list can grant, and the header of each.
const HEADERS: [(&str, &str); 5] = [
    ("READ", "x-amz-grant-read"),
    ("WRITE", "x-amz-grant-write"),
    ("READ_ACP", "x-amz-grant-read-acp"),
    ("WRITE_ACP", "x-amz-grant-write-acp"),
    ("FULL_CONTROL", "x-amz-grant-full-control"),
];

impl Bucket {
    /// The ACL of an object, or of the bucket for an empty key.
    pub fn acl(&self, key: &[u8]) -> Result<Acl> {
        let call = self.of_version(self.call("read ACL", Method::GET, key)).ask("acl", "");
        let answer = self.client.send(&call, Body::None).map_err(unsupported)?.whole("read ACL")?;
        xml::acl(&answer).map_err(|e| fault::document("read ACL", &self.name, e))
    }

    /// Replaces the ACL of an object, or of the bucket for an empty key, by one that the service has a word for: `private`,
    /// `public-read`...
    pub fn set_acl(&self, key: &[u8], canned: &str) -> Result<()> {
        let call = self.of_version(self.call("set ACL", Method::PUT, key)).ask("acl", "").with("x-amz-acl", canned);
        self.client.send(&call, Body::None).map(|_| ()).map_err(unsupported)
    }
}

/// The grants as headers of a request that makes an object.
///
/// # Errors
/// A grant that no header can hold: it would be lost.
pub(super) fn headers_of(acl: &Acl) -> Result<Vec<(&'static str, String)>> {
    // The default: services without ACLs show this one, of an owner without a name.
    if let [own] = &acl.grants[..]
        && own.permission == "FULL_CONTROL"
        && own.grantee.id() == acl.owner
    {
        return Ok(Vec::new());
    }
    let mut all: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for grant in &acl.grants {
        let kind = match &grant.grantee {
            Grantee::Id(..) => "id",
            Grantee::Email(_) => "emailAddress",
            Grantee::Group(_) => "uri",
        };
        let who = grant.grantee.id();
        let header = HEADERS.iter().find(|(word, _)| *word == grant.permission).map(|(_, header)| *header);
        let plain = who.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
        let Some(header) = header.filter(|_| plain && !who.is_empty()) else {
            let words = format!("the grant of {} to {} cannot be sent again", grant.permission, haul_core::entry::show(who.as_bytes()));
            return Err(Error::new(ErrorKind::Other, "copy ACL").because(words));
        };
        all.entry(header).or_default().push(format!("{kind}=\"{who}\""));
    }
    Ok(HEADERS.iter().filter_map(|(_, header)| Some((*header, all.get(header)?.join(", ")))).collect())
}

/// The canned ACL that gives everybody the same rights in another account, where the owner of the copy has all of them.
///
/// # Errors
/// A grant that no canned ACL has, or one to an account that the other end need not know: it would be lost.
pub(super) fn canned(acl: &Acl) -> Result<&'static str> {
    let mut rights: Vec<(&str, &str)> = Vec::new();
    for grant in &acl.grants {
        match &grant.grantee {
            Grantee::Id(id, _) if *id == acl.owner => {}
            Grantee::Group(_) => rights.push((grant.grantee.words().1, &grant.permission)),
            _ => return Err(not_portable(&grant.permission, grant.grantee.id())),
        }
    }
    rights.sort_unstable();
    rights.dedup();
    match rights[..] {
        [] => Ok(PRIVATE),
        [("AllUsers", "READ")] => Ok("public-read"),
        [("AllUsers", "READ"), ("AllUsers", "WRITE")] => Ok("public-read-write"),
        [("AuthenticatedUsers", "READ")] => Ok("authenticated-read"),
        [(who, right), ..] => Err(not_portable(right, who)),
    }
}

/// The default.
pub(super) const PRIVATE: &str = "private";

fn not_portable(permission: &str, who: &str) -> Error {
    let words = format!("the grant of {permission} to {} cannot be given by another account", haul_core::entry::show(who.as_bytes()));
    Error::new(ErrorKind::Other, "copy ACL").because(words).hint("name an ACL: --acl private, --acl bucket-owner-full-control")
}

/// Buckets may be set to have no ACLs, as all new ones at AWS are.
fn unsupported(e: Error) -> Error {
    match e.kind() {
        ErrorKind::Unsupported => e.hint("this service, or this bucket, has no ACLs: use a bucket policy"),
        _ if e.reason().contains("AccessControlListNotSupported") => {
            e.hint("the bucket's object ownership is enforced, which switches ACLs off: use a bucket policy")
        }
        _ => e,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_grants_to_everybody_are_canned() {
        let group = |name: &str| Grantee::Group(format!("http://acs.amazonaws.com/groups/global/{name}"));
        let all = |grants: &[(Grantee, &str)]| {
            let grant = |(grantee, permission): &(Grantee, &str)| Grant { grantee: grantee.clone(), permission: permission.to_string() };
            canned(&Acl { owner: "me".into(), grants: grants.iter().map(grant).collect(), ..Acl::default() }).ok()
        };
        let own = (Grantee::Id("me".into(), String::new()), "FULL_CONTROL");
        let (everybody, signed) = (group("AllUsers"), group("AuthenticatedUsers"));
        assert_eq!((all(&[]), all(std::slice::from_ref(&own))), (Some("private"), Some("private")));
        assert_eq!(all(&[own.clone(), (everybody.clone(), "READ")]), Some("public-read"));
        assert_eq!(all(&[(everybody.clone(), "WRITE"), (everybody.clone(), "READ"), own.clone()]), Some("public-read-write"));
        assert_eq!(all(&[own.clone(), (signed.clone(), "READ")]), Some("authenticated-read"));
        for other in [(everybody.clone(), "WRITE"), (signed, "WRITE"), (Grantee::Id("you".into(), String::new()), "READ")] {
            assert_eq!(all(&[own.clone(), other]), None);
        }
    }

    #[test]
    fn grants_are_grouped_by_their_right() {
        let grant = |grantee, permission: &str| Grant { grantee, permission: permission.into() };
        let id = |id: &str| Grantee::Id(id.into(), String::new());
        let all = Grantee::Group("http://acs.amazonaws.com/groups/global/AllUsers".into());
        let acl = |grants| Acl { grants, ..Acl::default() };
        let headers = headers_of(&acl(vec![grant(id("a"), "FULL_CONTROL"), grant(all, "READ"), grant(id("b"), "READ")])).unwrap();
        let read = "uri=\"http://acs.amazonaws.com/groups/global/AllUsers\", id=\"b\"";
        assert_eq!(headers, [("x-amz-grant-read", read.into()), ("x-amz-grant-full-control", "id=\"a\"".to_string())]);
        let own = |owner: &str| Acl { owner: owner.into(), grants: vec![grant(id(owner), "FULL_CONTROL")], ..Acl::default() };
        assert!(headers_of(&own("me")).unwrap().is_empty() && headers_of(&own("")).unwrap().is_empty());
        for (who, right) in [("a\"b", "READ"), ("", "READ"), ("a", "ALL"), ("a\n", "READ")] {
            assert!(headers_of(&acl(vec![grant(id(who), right)])).is_err(), "{who:?} {right}");
        }
    }
}
