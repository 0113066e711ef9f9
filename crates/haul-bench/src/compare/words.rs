//! The values of a template's placeholders. A template is split into words first, so that no name becomes two words or an
//! option; names are inserted byte by byte.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Values by name: several words, one, or none where it is not known here. A name that is not in here is a mistake of the table.
#[derive(Clone, Debug, Default)]
pub struct Words(BTreeMap<&'static str, Vec<OsString>>);

impl Words {
    pub fn one(&mut self, name: &'static str, value: impl Into<OsString>) {
        self.0.insert(name, vec![value.into()]);
    }

    pub fn many(&mut self, name: &'static str, values: Vec<OsString>) {
        self.0.insert(name, values);
    }

    /// Known to the table, but not here.
    pub fn absent(&mut self, name: &'static str) {
        self.0.insert(name, Vec::new());
    }

    #[cfg(test)]
    pub fn sample() -> Words {
        let mut words = Words::default();
        let names = "src parent name dst copy from to login target ssh ssh_options bucket key \
                     endpoint endpoint_host no_ssl region origin threads workers haul haul_options";
        for name in names.split(' ') {
            words.one(name, "/x");
        }
        words
    }
}

/// Puts the values into each word. A word with a value that is not known is left out; one that is a value alone becomes as
/// many words as that has. Errors: in words.
pub fn fill(template: &[String], words: &Words) -> Result<Vec<OsString>, String> {
    let mut out = Vec::with_capacity(template.len());
    for word in template {
        let alone = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).filter(|name| !name.contains(['{', '}', ':']));
        match alone.and_then(|name| words.0.get(name)) {
            Some(values) => out.extend(values.iter().cloned()),
            None => out.extend(filled(word, words)?.map(OsString::from_vec)),
        }
    }
    Ok(out)
}

/// The same for text: one line, of which nothing is left out. Errors: also for a value that is not known.
pub fn fill_text(text: &str, words: &Words) -> Result<Vec<u8>, String> {
    let mut line = filled(text, words)?.ok_or("something in it is not known here")?;
    line.push(b'\n');
    Ok(line)
}

/// `None` where a value is not known.
fn filled(word: &str, words: &Words) -> Result<Option<Vec<u8>>, String> {
    let mut out = Vec::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('{') {
        out.extend_from_slice(before.as_bytes());
        let (name, after) = after.split_once('}').ok_or_else(|| format!("{word}: a brace is not closed"))?;
        let (name, form) = name.split_once(':').map_or((name, None), |(name, form)| (name, Some(form)));
        let values = words.0.get(name).ok_or_else(|| format!("{{{name}}} is none of the table's words"))?;
        let value = match &values[..] {
            [] => return Ok(None),
            [value] => value,
            _ => return Err(format!("{{{name}}} is several words and must stand alone")),
        };
        out.extend(formed(value, form, name)?);
        rest = after;
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(Some(out))
}

fn formed(value: &OsStr, form: Option<&str>, name: &str) -> Result<Vec<u8>, String> {
    let bytes = value.as_bytes();
    match form {
        None => Ok(bytes.to_vec()),
        Some("sh") => shlex::bytes::try_quote(bytes).map(|word| word.into_owned()).map_err(|e| format!("{{{name}}}: {e}")),
        Some("sftp") if bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0)) => {
            Err(format!("{{{name}}} has a line end, for which it has no form"))
        }
        Some("sftp") => Ok(for_sftp(bytes)),
        Some("url") => Ok(for_url(bytes)),
        Some("plain") if bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_./~+@%=,:-".contains(byte)) => Ok(bytes.to_vec()),
        Some("plain") => {
            Err(format!("{{{name}}} would be read by a shell on the remote host: it has more than letters, digits and _ . / + -"))
        }
        Some(form) => Err(format!("{{{name}:{form}}}: there are only :sh, :sftp, :url and :plain")),
    }
}

/// One word of a batch of sftp(1) or lftp(1).
fn for_sftp(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![b'"'];
    for byte in bytes {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
    out
}

fn for_url(bytes: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(byte);
    let escaped = |byte: &u8| if plain(byte) { vec![*byte] } else { format!("%{byte:02X}").into_bytes() };
    bytes.iter().flat_map(escaped).collect()
}

/// ssh and its options as the one word that rsync's `-e` takes: it splits at blanks, and knows quotes, doubled inside.
pub fn for_rsync(argv: &[OsString]) -> OsString {
    let quoted = |word: &OsString| match word.as_bytes() {
        bytes if bytes.iter().any(|byte| b" \t'\"".contains(byte)) => {
            let inside: Vec<u8> = bytes.iter().flat_map(|byte| if *byte == b'\'' { vec![b'\'', b'\''] } else { vec![*byte] }).collect();
            [b"'", &inside[..], b"'"].concat()
        }
        bytes => bytes.to_vec(),
    };
    OsString::from_vec(argv.iter().map(quoted).collect::<Vec<_>>().join(&b' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Words {
        let mut words = Words::sample();
        words.one("src", OsString::from_vec(b"/a b/$(rm -rf x);'\"\xff".to_vec()));
        words.many("ssh_options", vec!["-F".into(), "/my config".into()]);
        words.absent("endpoint");
        words
    }

    fn fill_line(line: &str) -> Result<Vec<Vec<u8>>, String> {
        let template: Vec<String> = line.split(' ').map(str::to_string).collect();
        Ok(fill(&template, &words())?.into_iter().map(OsString::into_vec).collect())
    }

    #[test]
    fn a_name_stays_one_word_with_all_its_bytes() {
        let got = fill_line("scp {ssh_options} {src} --endpoint={endpoint} x{dst}/").unwrap();
        let expected: Vec<&[u8]> = vec![b"scp", b"-F", b"/my config", b"/a b/$(rm -rf x);'\"\xff", b"x/x/"];
        assert_eq!(got, expected);
    }

    #[test]
    fn what_is_quoted_is_read_back_as_it_was() {
        let split = shlex::bytes::split(&fill_line("{src:sh}").unwrap()[0]).unwrap();
        assert_eq!(split, [b"/a b/$(rm -rf x);'\"\xff"]);
        assert_eq!(fill_line("{src:sftp}").unwrap()[0], b"\"/a b/$(rm -rf x);'\\\"\xff\"");
        assert_eq!(fill_line("{src:url}").unwrap()[0], b"/a%20b/%24%28rm%20-rf%20x%29%3B%27%22%FF");
        assert!(fill_line("{src:plain}").unwrap_err().contains("shell"));
        assert!(fill_line("{moon}").unwrap_err().contains("none of"));
        assert!(fill_line("x{ssh_options}").unwrap_err().contains("alone"));
        assert!(fill_line("{src").unwrap_err().contains("not closed"));
        assert_eq!(for_rsync(&["ssh".into(), "-F".into(), "/my 'c'".into()]), "ssh -F '/my ''c'''");
    }
}
