//! Access control lists, as they are read.

use serde::Deserialize;

use super::Fault;
use super::answer::read;

/// The owner of an object or a bucket, and the grants of its list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    pub owner: String,
    pub owner_name: String,
    pub grants: Vec<Grant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub grantee: Grantee,
    /// `READ`, `WRITE`, `READ_ACP`, `WRITE_ACP` or `FULL_CONTROL`.
    pub permission: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grantee {
    /// An account, and its name if it is said.
    Id(String, String),
    Email(String),
    /// The address of a group: all users, all that are signed in.
    Group(String),
}

impl Grantee {
    /// A word for the kind, and the name of who is meant.
    pub fn words(&self) -> (&'static str, &str) {
        match self {
            Grantee::Id(id, name) => ("user", if name.is_empty() { id } else { name }),
            Grantee::Email(address) => ("email", address),
            Grantee::Group(address) => ("group", address.rsplit('/').next().unwrap_or_default()),
        }
    }

    pub fn id(&self) -> &str {
        match self {
            Grantee::Id(id, _) => id,
            Grantee::Email(address) | Grantee::Group(address) => address,
        }
    }
}

pub fn acl(document: &[u8]) -> Result<Acl, Fault> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "PascalCase")]
    struct Policy {
        owner: Who,
        access_control_list: Lists,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "PascalCase")]
    struct Who {
        #[serde(rename = "ID")]
        id: String,
        display_name: String,
        #[serde(rename = "URI")]
        uri: String,
        email_address: String,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "PascalCase")]
    struct Lists {
        grant: Vec<Granted>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "PascalCase")]
    struct Granted {
        grantee: Who,
        permission: String,
    }
    let policy: Policy = read(document, "AccessControlPolicy", &["AccessControlList", "Owner"])?;
    let grant = |granted: Granted| {
        let who = granted.grantee;
        let grantee = match (who.uri.is_empty(), who.email_address.is_empty()) {
            (false, _) => Grantee::Group(who.uri),
            (_, false) => Grantee::Email(who.email_address),
            _ => Grantee::Id(who.id, who.display_name),
        };
        Grant { grantee, permission: granted.permission }
    };
    let grants = policy.access_control_list.grant.into_iter().map(grant).collect();
    Ok(Acl { owner: policy.owner.id, owner_name: policy.owner.display_name, grants })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read() {
        let document = br#"<?xml version="1.0"?><AccessControlPolicy xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Owner><ID>o</ID>
            <DisplayName>me</DisplayName></Owner><AccessControlList><Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
            xsi:type="CanonicalUser"><ID>o</ID><DisplayName>me</DisplayName></Grantee><Permission>FULL_CONTROL</Permission></Grant><Grant>
            <Grantee xmlns:xsi="x" xsi:type="Group"><URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee>
            <Permission>READ</Permission></Grant></AccessControlList></AccessControlPolicy>"#;
        let read = acl(document).unwrap();
        assert_eq!((&*read.owner, &*read.owner_name, read.grants.len()), ("o", "me", 2));
        assert_eq!((read.grants[0].grantee.words(), read.grants[1].grantee.words()), (("user", "me"), ("group", "AllUsers")));
        assert_eq!((read.grants[0].grantee.id(), &*read.grants[1].permission), ("o", "READ"));
        assert!(acl(b"<html></html>").is_err());
    }
}
