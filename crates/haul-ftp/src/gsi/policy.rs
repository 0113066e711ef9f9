//! Signing policies: which subjects an authority may certify (`HASH.signing_policy`, the EACL format of Globus).

use super::certificate::{Certificate, shown_name};

/// By authority, the subjects that it may certify: patterns with `*` and `?`.
#[derive(Debug, Default)]
pub struct Policies(Vec<(String, Vec<String>)>);

impl Policies {
    /// Reads one file: `access_id_CA X509 'SUBJECT'`, then `cond_subjects globus '"PATTERN" "PATTERN"'`.
    pub fn add(&mut self, text: &str) {
        let mut authority = None;
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            // The kind of name, or of right.
            let value = rest.trim_start().split_once(char::is_whitespace).map(|(_, value)| value.trim());
            match (word, value, &authority) {
                ("access_id_CA", Some(value), _) => authority = Some(value.trim_matches(['\'', '"']).to_string()),
                ("cond_subjects", Some(value), Some(of)) => {
                    let inner = value.trim_matches('\'');
                    let quoted: Vec<String> = inner.split('"').skip(1).step_by(2).map(str::to_string).collect();
                    let patterns = if quoted.is_empty() { vec![inner.to_string()] } else { quoted };
                    match self.0.iter_mut().find(|(known, _)| known == of) {
                        Some((_, known)) => known.extend(patterns),
                        None => self.0.push((of.clone(), patterns)),
                    }
                }
                _ => {}
            }
        }
    }

    /// A certificate whose issuer has a policy that does not allow its subject: the two names.
    pub fn violation<'a>(&self, chain: impl Iterator<Item = &'a Certificate>) -> Option<(String, String)> {
        chain.filter(|certificate| certificate.issuer != certificate.subject).find_map(|certificate| {
            let issuer = shown_name(&certificate.issuer);
            let subject = shown_name(&certificate.subject);
            let (_, patterns) = self.0.iter().find(|(authority, _)| *authority == issuer)?;
            (!patterns.iter().any(|pattern| fits(pattern.as_bytes(), subject.as_bytes()))).then_some((subject, issuer))
        })
    }
}

/// Whether a name fits a pattern, in which `*` is any text and `?` any character; capitals and small letters are the same.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star = None;
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(byte) if *byte == b'?' || byte.eq_ignore_ascii_case(&name[from]) => (at, from) = (at + 1, from + 1),
            _ => {
                let Some((before, taken)) = star else { return false };
                star = Some((before, taken + 1));
                (at, from) = (before + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read() {
        let mut policies = Policies::default();
        policies.add(
            "# comment\n access_id_CA      X509         '/C=XX/O=Grid/CN=CA'\n pos_rights globus CA:sign\n \
             cond_subjects     globus     '\"/C=XX/O=Grid/*\" \"/dc=org/*\"'\nnonsense\ncond_subjects\n",
        );
        assert_eq!(policies.0, [("/C=XX/O=Grid/CN=CA".to_string(), vec!["/C=XX/O=Grid/*".to_string(), "/dc=org/*".to_string()])]);
        policies.add("access_id_CA X509 /CN=b\ncond_subjects globus '/CN=*'");
        assert_eq!(policies.0[1].1, ["/CN=*"]);
    }

    #[test]
    fn patterns_fit_names() {
        for (pattern, name, expected) in [
            ("/C=XX/*", "/C=XX/CN=a", true),
            ("/c=xx/*", "/C=XX/CN=a", true),
            ("/C=XX/*", "/C=XY/CN=a", false),
            ("*", "", true),
            ("/C=?X/*a*b", "/C=XX/CN=cabab", true),
            ("/C=?X/*a*b", "/C=XX/CN=caba", false),
            ("", "x", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
