//! `~/.aws/config` and `~/.aws/credentials`, read as the AWS command line reads them.
//!
//! ```text
//! [profile work]            # in config; plain [work] in credentials, [default] in both
//! region = eu-west-1
//! services = local          # names the section below
//! s3 =                      # deeper indented lines belong to it
//!   addressing_style = path
//!
//! [services local]
//! s3 =
//!   endpoint_url = http://127.0.0.1:9000
//! ```
//!
//! What both files say of a profile is one profile; the credentials file wins.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use haul_core::error::{Error, ErrorKind, Result};
use zeroize::Zeroizing;

use haul_net::http_client::Environment;

/// Settings files are some KiB; what is larger than this many bytes is none.
const LARGEST: u64 = 8 << 20;

/// One section: its keys in lower case, and keys below keys. `Debug` shows names only.
#[derive(Clone, Default)]
pub(super) struct Section {
    values: BTreeMap<String, Zeroizing<String>>,
}

impl Section {
    /// The value of a key; an empty one counts as none.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// The value of a key that is indented below `outer`.
    pub(super) fn nested(&self, outer: &str, key: &str) -> Option<&str> {
        let lines = self.values.get(outer)?.lines().skip(1);
        let found = lines.filter_map(|line| line.split_once('=')).filter(|(name, _)| name.trim().eq_ignore_ascii_case(key));
        found.last().map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }
}

impl fmt::Debug for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

type Sections = BTreeMap<String, Section>;

/// A settings file: where it is, what is in it, and why it could not be read if that is so.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) missing: Option<String>,
    sections: Sections,
}

#[derive(Debug)]
pub(super) struct Profiles {
    pub(super) config: File,
    pub(super) credentials: File,
}

impl Profiles {
    /// A file that is not there has no profiles; one that makes no sense is an error that names its line, not its text.
    pub(super) fn read(environment: &Environment) -> Result<Profiles> {
        let place = |variable: &str, usual: &str| environment.path(&environment.get(variable).unwrap_or_else(|| usual.to_string()));
        let config = File::read(place("AWS_CONFIG_FILE", "~/.aws/config"))?;
        let credentials = File::read(place("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"))?;
        Ok(Profiles { config, credentials })
    }

    /// What the config file alone says of a profile.
    pub(super) fn in_config(&self, profile: &str) -> Option<&Section> {
        let sections = &self.config.sections;
        let plain = (profile == "default").then(|| sections.get(profile)).flatten();
        sections.get(&format!("profile {profile}")).or(plain)
    }

    /// What the credentials file alone says of a profile.
    pub(super) fn in_credentials(&self, profile: &str) -> Option<&Section> {
        self.credentials.sections.get(profile)
    }

    pub(super) fn knows(&self, profile: &str) -> bool {
        self.in_config(profile).is_some() || self.in_credentials(profile).is_some()
    }

    pub(super) fn get(&self, profile: &str, key: &str) -> Option<&str> {
        let both = [self.in_credentials(profile), self.in_config(profile)];
        both.into_iter().flatten().find_map(|section| section.get(key))
    }

    pub(super) fn nested(&self, profile: &str, outer: &str, key: &str) -> Option<&str> {
        let both = [self.in_credentials(profile), self.in_config(profile)];
        both.into_iter().flatten().find_map(|section| section.nested(outer, key))
    }

    pub(super) fn sso_session(&self, name: &str) -> Option<&Section> {
        self.config.sections.get(&format!("sso-session {name}"))
    }

    /// # Errors
    /// The profile names a section for its endpoints that is not there: its keys would go to Amazon.
    pub(super) fn check_services(&self, profile: &str) -> Result<()> {
        match self.get(profile, "services") {
            Some(name) if !self.config.sections.contains_key(&format!("services {name}")) => {
                let words =
                    format!("profile {profile} says services = {name}, and {} has no [services {name}]", self.config.path.display());
                Err(Error::new(ErrorKind::Usage, "open account").because(words))
            }
            _ => Ok(()),
        }
    }

    /// The endpoint of one service in the profile's `services` section.
    pub(super) fn service_endpoint(&self, profile: &str, service: &str) -> Option<&str> {
        let services = self.get(profile, "services")?;
        self.config.sections.get(&format!("services {services}"))?.nested(service, "endpoint_url")
    }

    pub(super) fn names(&self) -> Vec<&str> {
        let config = self.config.sections.keys().filter_map(|name| match name.as_str() {
            "default" => Some("default"),
            other => other.strip_prefix("profile "),
        });
        let mut names: Vec<&str> = config.chain(self.credentials.sections.keys().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl File {
    fn read(path: PathBuf) -> Result<File> {
        let text = match contents(&path) {
            Ok(text) => text,
            Err(error) => {
                let words = Error::io(error, "read").reason();
                return Ok(File { path, missing: Some(words), sections: Sections::new() });
            }
        };
        let sections = parse(&text).map_err(|line| {
            Error::new(ErrorKind::Usage, "read settings")
                .because(format!("{}: line {line} is neither [section] nor key = value", path.display()))
        })?;
        Ok(File { path, missing: None, sections })
    }
}

/// A file's text, wiped when dropped.
pub(super) fn contents(path: &Path) -> io::Result<Zeroizing<String>> {
    let size = std::fs::metadata(path)?.len();
    if size > LARGEST {
        return Err(io::Error::other("too large for a settings file"));
    }
    let bytes = Zeroizing::new(std::fs::read(path)?);
    Ok(Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned()))
}

/// The sections, or the number of the first line that makes no sense. A section that comes twice is one.
fn parse(text: &str) -> Result<Sections, usize> {
    let mut sections = Sections::new();
    let mut section: Option<String> = None;
    let mut key: Option<(String, usize)> = None;
    for (n, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
        let content = line.trim();
        if content.is_empty() || content.starts_with(['#', ';']) {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let current = section.as_ref().and_then(|name| sections.get_mut(name));
        // Deeper than its key: more of the value.
        if let (Some(current), Some((name, _))) = (current, key.as_ref().filter(|(_, of_key)| indent > *of_key)) {
            let value = current.values.entry(name.clone()).or_default();
            value.push('\n');
            value.push_str(content);
            continue;
        }
        if let Some(header) = content.strip_prefix('[') {
            let name = section_name(header.split(']').next().unwrap_or(""));
            if !header.contains(']') || name.is_empty() {
                return Err(n + 1);
            }
            sections.entry(name.clone()).or_default();
            section = Some(name);
            key = None;
            continue;
        }
        let (Some(at), Some(current)) = (content.find(['=', ':']), section.as_ref().and_then(|name| sections.get_mut(name))) else {
            return Err(n + 1);
        };
        let name = content[..at].trim().to_lowercase();
        if name.is_empty() {
            return Err(n + 1);
        }
        current.values.insert(name.clone(), Zeroizing::new(content[at + 1..].trim().to_string()));
        key = Some((name, indent));
    }
    Ok(sections)
}

/// `profile "my name"` is `profile my name`, with one blank between the kind and the name.
fn section_name(header: &str) -> String {
    let header = header.trim();
    let unquoted = |text: &str| {
        let text = text.trim();
        let inner = ['"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
        inner.unwrap_or(text).to_string()
    };
    match header.split_once([' ', '\t']) {
        Some((kind @ ("profile" | "sso-session" | "services"), name)) => format!("{kind} {}", unquoted(name)),
        _ => unquoted(header),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section<'a>(sections: &'a Sections, name: &str) -> &'a Section {
        sections.get(name).unwrap_or_else(|| panic!("{name} in {:?}", sections.keys()))
    }

    #[test]
    fn a_config_file_is_read_as_the_command_line_reads_it() {
        let text = "\u{feff}# first\n[default]\nRegion = us-west-2\ns3 = \n   addressing_style = path\n   max_concurrent_requests=20\noutput: json\n\n\
                    [profile \"two words\"]\naws_secret_access_key=a=b#c ;d\nempty =\n\
                    [profile   spaced  ]\nregion=x\n[sso-session corp]\nsso_region = eu-west-1\n[default]\nextra = 1\n";
        let sections = parse(text).unwrap();
        let default = section(&sections, "default");
        assert_eq!(default.get("region"), Some("us-west-2"));
        assert_eq!(default.get("output"), Some("json"));
        assert_eq!(default.get("extra"), Some("1"), "a section that comes twice is one");
        assert_eq!(default.nested("s3", "addressing_style"), Some("path"));
        assert_eq!(default.nested("s3", "max_concurrent_requests"), Some("20"));
        assert_eq!(default.nested("s3", "other"), None);
        let quoted = section(&sections, "profile two words");
        assert_eq!(quoted.get("aws_secret_access_key"), Some("a=b#c ;d"));
        assert_eq!(quoted.get("empty"), None);
        section(&sections, "profile spaced");
        section(&sections, "sso-session corp");
    }

    #[test]
    fn keys_that_are_all_indented_are_keys() {
        let sections = parse("[a]\n  x = 1\n  y = 2\n\tz = 3\n").unwrap();
        assert_eq!(section(&sections, "a").get("x"), Some("1"));
        assert_eq!(section(&sections, "a").get("y"), Some("2"));
        assert_eq!(section(&sections, "a").get("z"), Some("3"));
    }

    #[test]
    fn what_makes_no_sense_is_told_by_its_line() {
        for (text, line) in [("x = 1\n", 1), ("[a]\nx\n", 2), ("[a\n", 1), ("[]\n", 1), ("[a]\n\n= 3", 3)] {
            assert_eq!(parse(text).unwrap_err(), line, "{text:?}");
        }
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn the_credentials_file_wins_and_services_are_followed() {
        let home = tempfile::tempdir().unwrap();
        let at = home.path().join(".aws");
        std::fs::create_dir(&at).unwrap();
        let config = "[profile w]\nregion=one\nservices = l\nendpoint_url=http://all\n[services l]\ns3 =\n  endpoint_url = http://s3\nsts =\n  endpoint_url = http://sts\n";
        std::fs::write(at.join("config"), config).unwrap();
        std::fs::write(at.join("credentials"), "[w]\nregion=two\n[x]\n").unwrap();
        let profiles = Profiles::read(&Environment::table(Some(home.path().into()), [])).unwrap();
        assert_eq!(profiles.get("w", "region"), Some("two"));
        assert_eq!(profiles.service_endpoint("w", "s3"), Some("http://s3"));
        assert_eq!(profiles.service_endpoint("w", "sts"), Some("http://sts"));
        assert_eq!(profiles.service_endpoint("x", "s3"), None);
        assert_eq!(profiles.names(), ["w", "x"]);
        assert!(profiles.knows("x") && !profiles.knows("y") && !profiles.knows("default"));
    }

    #[test]
    fn a_file_without_sense_is_an_error_without_its_text() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("c");
        std::fs::write(&path, "[default]\nverysecret\n").unwrap();
        let named = path.to_str().unwrap();
        let environment = Environment::table(None, [("AWS_SHARED_CREDENTIALS_FILE", named), ("AWS_CONFIG_FILE", "/nowhere/at/all")]);
        let error = Profiles::read(&environment).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains(named) && !error.contains("verysecret"), "{error}");
    }
}
