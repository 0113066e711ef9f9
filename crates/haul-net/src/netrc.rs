//! `~/.netrc`: names and passwords by host, as ftp(1), curl and git read them.

use std::path::PathBuf;

use zeroize::Zeroizing;

use crate::http_client::Environment;

/// The file is read up to here.
const MOST_BYTES: usize = 1 << 20;

#[derive(Default)]
pub struct Netrc(Vec<Machine>);

struct Machine {
    /// `None` is `default`.
    name: Option<String>,
    login: String,
    password: Zeroizing<String>,
}

impl std::fmt::Debug for Netrc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Netrc({} machines)", self.0.len())
    }
}

impl Netrc {
    /// The file that `NETRC` names, else `~/.netrc`; a file that cannot be read has no machines.
    pub fn read(environment: &Environment) -> Netrc {
        let file = environment.get("NETRC").map(PathBuf::from).or_else(|| Some(environment.home()?.join(".netrc")));
        let bytes = file.and_then(|file| std::fs::read(file).ok()).map(Zeroizing::new).unwrap_or_default();
        Netrc::parse(&String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_BYTES)]))
    }

    fn parse(text: &str) -> Netrc {
        let mut machines: Vec<Machine> = Vec::new();
        let mut words = Words { rest: text };
        while let Some(word) = words.next() {
            match &*word {
                "machine" => machines.extend(words.next().map(|name| Machine::new(Some(name)))),
                "default" => machines.push(Machine::new(None)),
                "login" => {
                    if let (Some(machine), Some(login)) = (machines.last_mut(), words.next()) {
                        machine.login = login;
                    }
                }
                "password" => {
                    if let (Some(machine), Some(password)) = (machines.last_mut(), words.next()) {
                        machine.password = Zeroizing::new(password);
                    }
                }
                "account" => drop(words.next()),
                "macdef" => words.skip_macro(),
                _ => {}
            }
        }
        Netrc(machines)
    }

    /// Name and password for a host, of that name if one is wanted.
    pub fn of(&self, host: &str, login: Option<&str>) -> Option<(&str, &str)> {
        let fits = |machine: &&Machine| login.is_none_or(|login| machine.login == login);
        let named = |machine: &&Machine| machine.name.as_deref().is_some_and(|name| name.eq_ignore_ascii_case(host));
        let mut all = self.0.iter().filter(fits);
        let found = all.clone().find(named).or_else(|| all.find(|machine| machine.name.is_none()))?;
        Some((&found.login, &found.password))
    }
}

impl Machine {
    fn new(name: Option<String>) -> Machine {
        Machine { name, login: String::new(), password: Zeroizing::default() }
    }
}

/// Words between blanks; one in quotes may have blanks and, behind a backslash, quotes.
struct Words<'a> {
    rest: &'a str,
}

impl Words<'_> {
    fn next(&mut self) -> Option<String> {
        loop {
            self.rest = self.rest.trim_start();
            match self.rest.strip_prefix('#') {
                Some(comment) => self.rest = comment.split_once('\n').map_or("", |(_, rest)| rest),
                None => break,
            }
        }
        if let Some(quoted) = self.rest.strip_prefix('"') {
            let mut word = String::new();
            let mut chars = quoted.char_indices();
            while let Some((at, c)) = chars.next() {
                match c {
                    '"' => {
                        self.rest = &quoted[at + 1..];
                        return Some(word);
                    }
                    '\\' => word.extend(chars.next().map(|(_, c)| c)),
                    c => word.push(c),
                }
            }
            self.rest = "";
            return Some(word);
        }
        let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then(|| word.to_string())
    }

    /// A macro ends with an empty line.
    fn skip_macro(&mut self) {
        self.rest = self.rest.split_once("\n\n").map_or("", |(_, rest)| rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_found_by_host_and_login() {
        let text = "# mine\nmachine a.org login me password \"p w\\\"d\" account x\nmachine A.org login you\n password two\n\
                    macdef init\ncd /x\nmachine no login no password no\n\nmachine b\nlogin bob\ndefault login anonymous password guest";
        let netrc = Netrc::parse(text);
        assert_eq!(netrc.of("A.ORG", None), Some(("me", "p w\"d")));
        assert_eq!(netrc.of("a.org", Some("you")), Some(("you", "two")));
        assert_eq!(netrc.of("a.org", Some("nobody")), None);
        assert_eq!(netrc.of("b", None), Some(("bob", "")));
        assert_eq!(netrc.of("no", None), Some(("anonymous", "guest")));
        assert!(!format!("{netrc:?}").contains("guest"));
        for odd in ["", "machine", "login x", "machine a password \"", "machine a login \"\\"] {
            let _ = Netrc::parse(odd).of("a", None);
        }
    }
}
