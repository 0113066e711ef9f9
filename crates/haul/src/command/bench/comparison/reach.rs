//! The connection flags for other programs: options of ssh, the endpoint of an object store.

use haul_run::location::Location;
use haul_ssh::ssh;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_core::error::{Error, ErrorKind, Result};

use crate::flags::connect::Connect;

/// ssh with the words that `--ssh` has for it.
pub fn ssh(connect: &Connect) -> Vec<OsString> {
    let words = |command: &OsString| {
        let words = command.as_bytes().split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        words.map(|word| OsStr::from_bytes(word).to_os_string()).collect::<Vec<_>>()
    };
    connect.get::<ssh::Flags>().ssh.as_ref().map(words).filter(|words| !words.is_empty()).unwrap_or_else(|| vec!["ssh".into()])
}

/// Options that ssh, scp and sftp understand; they never ask for a password.
pub fn ssh_options(connect: &Connect, location: &Location) -> Vec<OsString> {
    let connect: ssh::Flags = connect.get();
    let mut out: Vec<OsString> = Vec::new();
    if let Some(config) = &connect.ssh_config {
        out.extend(["-F".into(), absolute(config)]);
    }
    let mut option = |name: &str, value: &OsStr| {
        let mut word = OsString::from(format!("{name}="));
        word.push(value);
        out.extend(["-o".into(), word]);
    };
    option("BatchMode", OsStr::new("yes"));
    if let Some(port) = location.port.or(connect.port) {
        option("Port", OsStr::new(&port.to_string()));
    }
    if let Some(jump) = &connect.jump {
        option("ProxyJump", OsStr::new(jump));
    }
    for identity in &connect.identities {
        option("IdentityFile", &absolute(identity));
    }
    for given in &connect.ssh_options {
        out.extend(["-o".into(), given.into()]);
    }
    out
}

fn absolute(path: &Path) -> OsString {
    std::path::absolute(path).map_or_else(|_| path.as_os_str().to_os_string(), Into::into)
}

/// `USER@HOST`, and the same with the brackets that an IPv6 address has in front of a colon. Errors: what ssh would take for an
/// option.
pub fn login(location: &Location) -> Result<(String, String)> {
    let host = location.host.clone().unwrap_or_default();
    let user = location.user.as_ref().map_or(String::new(), |user| format!("{user}@"));
    if host.is_empty() || host.starts_with('-') || user.starts_with('-') {
        return Err(Error::new(ErrorKind::Usage, "connect").at(&location.to_bytes()).because("ssh does not accept this host"));
    }
    let bracketed = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    Ok((format!("{user}{host}"), format!("{user}{bracketed}")))
}

/// The address of an FTP server without a path, as other clients have it: to them TLS that is agreed on is a setting, and `ftps` is TLS
/// from the first byte.
pub fn origin(location: &Location) -> String {
    let scheme = match location.scheme.0.word {
        "ftps" if location.port != Some(990) => "ftp",
        word => word,
    };
    format!("{scheme}://{}", location.authority())
}

/// Where the flags or the environment say that the object store is.
pub fn endpoint(connect: &Connect) -> Option<String> {
    let named = |name: &str| std::env::var(name).ok().filter(|url| !url.is_empty());
    let from_environment = || ["S3_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"].into_iter().find_map(named);
    connect.get::<haul_s3::Flags>().endpoint_url.or_else(from_environment)
}

pub fn region(connect: &Connect) -> Option<String> {
    let named = |name: &str| std::env::var(name).ok().filter(|region| !region.is_empty());
    connect.get::<haul_s3::Flags>().region.or_else(|| named("AWS_REGION")).or_else(|| named("AWS_DEFAULT_REGION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_words_of_their_own() {
        let flags = ssh::Flags {
            ssh_config: Some("/my config".into()),
            jump: Some("gate".into()),
            identities: vec!["/key".into()],
            ssh_options: vec!["Compression=no".into()],
            port: Some(22),
            ..ssh::Flags::default()
        };
        let connect = Connect::default().with(std::sync::Arc::new(flags));

        let host = haul_run::registry::parse(OsStr::new("ssh://me@[::1]:2222/x"), &|_| false).expect("an address");
        let words: Vec<String> = ssh_options(&connect, &host).into_iter().map(|w| w.into_string().expect("text")).collect();
        let expected = "-F|/my config|-o|BatchMode=yes|-o|Port=2222|-o|ProxyJump=gate|-o|IdentityFile=/key|-o|Compression=no";
        assert_eq!(words.join("|"), expected);
        assert_eq!(login(&host).expect("a host"), ("me@::1".to_string(), "me@[::1]".to_string()));
        let evil = Location { host: Some("-oProxyCommand=x".into()), user: None, ..host };
        assert!(login(&evil).is_err());
    }
}
