//! The names of users and groups on this machine: through getent(1), so that LDAP and its kin are asked too, and from
//! `/etc/passwd` and `/etc/group` where there is no getent.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use crate::error::{Error, Result};
use crate::store::{Owners, Who};

/// Users and groups of this machine.
pub struct LocalOwners;

impl Owners for LocalOwners {
    /// The name of a number; `None` if it has none here. One process each: whoever asks often remembers the answers.
    fn name(&self, who: Who, id: u32) -> Result<Option<Box<[u8]>>> {
        let text = id.to_string();
        let line = look_up(who, text.as_bytes(), |fields| fields.get(2).is_some_and(|number| *number == text.as_bytes()))?;
        Ok(line.and_then(|line| fields(&line).first().filter(|name| !name.is_empty()).map(|name| Box::from(*name))))
    }

    /// The number of a name; `None` if it is not known here.
    fn id(&self, who: Who, name: &[u8]) -> Result<Option<u32>> {
        if name.is_empty() || name.contains(&b':') || name.contains(&b'\n') || name.contains(&0) {
            return Ok(None);
        }
        // To getent a name of digits is a number: what it answers must have the name itself.
        let line = look_up(who, name, |fields| fields.first() == Some(&name))?;
        Ok(line.and_then(|line| std::str::from_utf8(fields(&line).get(2)?).ok()?.parse().ok()))
    }
}

fn fields(line: &[u8]) -> Vec<&[u8]> {
    line.split(|byte| *byte == b':').collect()
}

fn look_up(who: Who, key: &[u8], is_it: impl Fn(&[&[u8]]) -> bool) -> Result<Option<Vec<u8>>> {
    use std::os::unix::ffi::OsStrExt;
    let database = match who {
        Who::User => "passwd",
        Who::Group => "group",
    };
    let mut getent = Command::new("getent");
    getent.args([database, "--"]).arg(std::ffi::OsStr::from_bytes(key)).stdin(Stdio::null()).stderr(Stdio::null());
    let lines = match getent.output() {
        Ok(output) => output.stdout,
        Err(e) if e.kind() == ErrorKind::NotFound => match std::fs::read(format!("/etc/{database}")) {
            Ok(lines) => lines,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io(e, "look up an owner")),
        },
        Err(e) => return Err(Error::io(e, "look up an owner")),
    };
    Ok(lines.split(|byte| *byte == b'\n').find(|line| is_it(&fields(line))).map(<[u8]>::to_vec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_both_ways_and_nobody_else_answers_for_a_name() {
        for who in [Who::User, Who::Group] {
            assert_eq!(LocalOwners.name(who, 0).expect("asked").as_deref(), Some(&b"root"[..]));
            assert_eq!(LocalOwners.id(who, b"root").expect("asked"), Some(0));
            // A number is no name, and these are neither.
            for strange in [&b"0"[..], b"", b"root:x", b"no such name here", b"-h", b"--help"] {
                assert_eq!(LocalOwners.id(who, strange).expect("asked"), None, "{}", strange.escape_ascii());
            }
            assert_eq!(LocalOwners.name(who, u32::MAX - 7).expect("asked"), None);
        }
    }
}
