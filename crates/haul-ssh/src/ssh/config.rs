//! The configuration that ssh would use, as `ssh -G` prints it.

use std::net::{IpAddr, ToSocketAddrs};

use crate::agent::has_aes;

#[derive(Clone, Debug, Default)]
pub struct Config(pub String);

impl Config {
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
    }

    /// The address of `host` to try data connections to, where the host reports `claimed`. Its claim is not trusted: whoever
    /// controls the host could have this machine connect to others of its network.
    pub fn reachable(&self, host: &str, claimed: IpAddr, jumps: bool) -> Option<IpAddr> {
        let by_another = jumps || self.get("proxyjump").is_some() || self.get("proxycommand").is_some();
        let host = self.get("hostname").unwrap_or(host);
        let addresses: Vec<IpAddr> = (host, 0).to_socket_addrs().into_iter().flatten().map(|at| at.ip()).collect();
        choose(claimed, &addresses, by_another)
    }

    /// Whether ssh would leave a master behind that later commands use, without a question.
    pub fn has_persistent_master(&self) -> bool {
        let is_off = |key: &str| self.get(key).is_none_or(|value| matches!(value, "no" | "false" | "none"));
        matches!(self.get("controlmaster"), Some("auto" | "yes" | "true")) && !is_off("controlpersist") && !is_off("controlpath")
    }

    /// Options that undo what keeps any session from working. Only an ssh that knows such an option prints it.
    pub fn undone(&self) -> Vec<String> {
        let set = |key: &str| matches!(self.get(key), Some("yes" | "true"));
        let known = [("stdinnull", "StdinNull=no"), ("forkafterauthentication", "ForkAfterAuthentication=no")];
        known.into_iter().filter(|(key, _)| set(key)).map(|(_, option)| option.to_string()).collect()
    }

    /// The ciphers that ssh would offer, with AES-GCM in front where OpenSSH's default has it behind ChaCha20: with the
    /// processor's instructions it takes two thirds of the time. A list in the user's own order stays as it is.
    pub fn ciphers(&self) -> Option<String> {
        let list: Vec<&str> = self.get("ciphers")?.split(',').collect();
        let fast = "aes128-gcm@openssh.com";
        if !has_aes() || list.first() != Some(&"chacha20-poly1305@openssh.com") || !list.contains(&fast) {
            return None;
        }
        let rest = list.into_iter().filter(|cipher| *cipher != fast);
        Some(std::iter::once(fast).chain(rest).collect::<Vec<_>>().join(","))
    }
}

/// `addresses` are those that this machine knows for the host's name.
fn choose(claimed: IpAddr, addresses: &[IpAddr], by_another: bool) -> Option<IpAddr> {
    let claimed = claimed.to_canonical();
    if addresses.iter().any(|address| address.to_canonical() == claimed) {
        return Some(claimed);
    }
    // Behind address translation the host knows another address than ssh connected to. Where another host made the
    // connection, no address is known to be reachable from here.
    addresses.first().copied().filter(|_| !by_another)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_configuration_asks_for_is_read() {
        let of = |text: &str| Config(text.to_string());
        assert!(of("controlmaster auto\ncontrolpersist 600\ncontrolpath /run/x").has_persistent_master());
        for text in [
            "controlmaster false\ncontrolpersist 600\ncontrolpath /run/x",
            "controlmaster ask\ncontrolpersist 600\ncontrolpath /run/x",
            "controlmaster auto\ncontrolpersist no\ncontrolpath /run/x",
            "controlmaster auto\ncontrolpersist yes",
        ] {
            assert!(!of(text).has_persistent_master(), "{text}");
        }
        assert_eq!(of("stdinnull yes\nforkafterauthentication no").undone(), ["StdinNull=no"]);
        assert_eq!(of("stdinnull no").undone(), Vec::<String>::new());
    }

    #[test]
    fn a_host_is_not_believed_where_it_is() {
        let at = |text: &str| text.parse::<IpAddr>().expect("an address");
        let named = [at("192.0.2.1"), at("2001:db8::1")];
        for (claimed, direct, by_another) in [
            ("192.0.2.1", Some("192.0.2.1"), Some("192.0.2.1")),
            ("::ffff:192.0.2.1", Some("192.0.2.1"), Some("192.0.2.1")),
            ("2001:db8::1", Some("2001:db8::1"), Some("2001:db8::1")),
            ("10.0.0.5", Some("192.0.2.1"), None),
            ("127.0.0.1", Some("192.0.2.1"), None),
        ] {
            assert_eq!(choose(at(claimed), &named, false), direct.map(at), "{claimed}");
            assert_eq!(choose(at(claimed), &named, true), by_another.map(at), "{claimed} by another");
        }
        assert_eq!(choose(at("10.0.0.5"), &[], false), None);
    }
}
