//! Installs haul on the remote host: this program's own file, into the remote user's cache, verified there by its hash before
//! it gets its name.

use std::fs::File;
use std::io::{Read, Seek};
use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::hash::{Algorithm, hex};

use crate::private::unique;
use crate::script::{SHA256, Said, Script, run};
use crate::ssh::{Login, REMOTE_CACHE, REMOTE_OTHERS};

#[derive(Debug)]
pub struct Program {
    file: File,
    pub version: &'static str,
    pub bytes: u64,
    /// It contains its C library, as builds of `./release` do, and starts on any Linux.
    pub is_static: bool,
    /// SHA-256, in hexadecimal digits: every system has a program for it.
    digest: String,
}

/// What is where this program would be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Installed {
    Same,
    /// Something under its name that is not this program: damaged, or of another build.
    Other,
    /// This version of haul, but in another place: that is used.
    Elsewhere,
    /// Another version in another place: this one is installed beside it, and found first.
    Version(String),
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Where it lies, relative to the home directory if it is in it.
    Placed(String),
    /// It cannot start there, in the system's words, and was removed.
    CannotStart(String),
}

/// Nothing moves for so long: failed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// System and machine for which this program was built, as `uname -sm` prints them.
pub fn platform() -> String {
    let machine = match std::env::consts::ARCH {
        "x86" => "i686",
        "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
        "powerpc64" => "ppc64",
        other => other,
    };
    format!("Linux {machine}")
}

impl Program {
    /// This program's own file, which may have been removed or replaced since it was started.
    pub fn own(version: &'static str) -> Result<Program> {
        let failed = |e| Error::io(e, "read this program");
        let mut file = File::open("/proc/self/exe").map_err(failed)?;
        let mut hasher = Algorithm::Sha256.begin();
        let mut buffer = vec![0; 1 << 20];
        let (mut bytes, mut is_static) = (0, false);
        loop {
            match file.read(&mut buffer).map_err(failed)? {
                0 => break,
                count => {
                    is_static = if bytes == 0 { !has_interpreter(&buffer[..count]) } else { is_static };
                    hasher.update(&buffer[..count]);
                    bytes += count as u64;
                }
            }
        }
        file.rewind().map_err(failed)?;
        Ok(Program { file, version, bytes, is_static, digest: hex(&hasher.finish()) })
    }

    /// What is installed. `Unsupported` if the host is of another platform than this program and has no usable haul.
    pub fn look(&self, login: &Login) -> Result<Installed> {
        let version = self.version;
        let output = run(
            login,
            &format!(
                "printf \"platform %s\\n\" \"`uname -sm`\"; own=\"{REMOTE_CACHE}/haul-{version}\"; \
                 if [ -x \"$own\" ]; then h=`{SHA256} < \"$own\"`; echo own $h; \
                 elif [ -e \"$own\" ]; then echo own broken; \
                 else for haul in {REMOTE_OTHERS}; do command -v \"$haul\" >/dev/null 2>&1 && \
                 echo elsewhere `\"$haul\" --version 2>/dev/null </dev/null` && break; done; fi"
            ),
            IDLE_TIMEOUT,
        )?;
        let installed = match (output.get("own"), output.get("elsewhere")) {
            (Some(digest), _) if digest.starts_with(&self.digest) => Installed::Same,
            (Some(_), _) => Installed::Other,
            (None, Some(words)) if words.split_whitespace().nth(1) == Some(version) => Installed::Elsewhere,
            (None, Some(words)) => Installed::Version(words.split_whitespace().nth(1).unwrap_or("unknown").to_string()),
            (None, None) => Installed::Nothing,
        };
        let remote = output.get("platform").unwrap_or_default();
        if !matches!(installed, Installed::Same | Installed::Elsewhere) && remote != platform() {
            let reason = format!("the host is {}, but this program is for {}", haul_core::entry::show(remote.as_bytes()), platform());
            let hint = "install haul for that platform in its PATH, or omit --install-agent";
            return Err(Error::new(ErrorKind::Unsupported, OP).because(reason).hint(hint));
        }
        Ok(installed)
    }

    /// Writes it under a temporary name, verifies its hash, starts it, and only then gives it its name. Of older versions the
    /// newest stays.
    pub fn place(&self, login: &Login) -> Result<Outcome> {
        let (version, digest) = (self.version, &self.digest);
        let script = format!(
            "umask 077; d=\"{REMOTE_CACHE}\"; t=.new-{:016x}; \
             no() {{ rm -f \"$t\"; printf \"%s\\n\" \"$*\"; exit 1; }}; \
             e=`mkdir -p \"$d\" 2>&1` || no failed \"$e\"; cd \"$d\" || no failed \"$d cannot be entered\"; \
             trap \"rm -f $t; exit 1\" 1 2 15; \
             e=`cat 2>&1 >\"$t\"` || no failed \"$e\"; \
             h=`{SHA256} < \"$t\"`; \
             case \"$h\" in {digest}*) ;; \"\") no failed there is no program that computes SHA-256;; *) no differs;; esac; \
             chmod 700 \"$t\"; v=`\"./$t\" --version 2>&1 </dev/null` || no start \"$v\"; \
             e=`mv -f \"$t\" haul-{version} 2>&1` || no failed \"$e\"; \
             printf \"home %s\\n\" \"$HOME\"; printf \"placed %s\\n\" \"$PWD/haul-{version}\"; \
             ls -td haul-[0-9]* 2>/dev/null | tail -n +3 | while read -r f; do \
             case \"$f\" in haul-{version}) ;; *) rm -f \"./$f\";; esac; done; \
             find . -name \".new-*\" -mtime +0 -exec rm -f {{}} + 2>/dev/null",
            unique()
        );
        let mut file = self.file.try_clone().map_err(|e| Error::io(e, OP))?;
        file.rewind().map_err(|e| Error::io(e, OP))?;
        let output = Script::start(login, &script, Some(Box::new(file)))?.hear(IDLE_TIMEOUT)?;
        outcome(&output)
    }
}

/// Whether an ELF file of this machine's word size, of which this is the beginning, asks for a dynamic linker (`PT_INTERP`).
fn has_interpreter(head: &[u8]) -> bool {
    const PT_INTERP: usize = 3;
    let number = |at: usize, bytes: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(head.get(at..at + bytes)?);
        Some(u64::from_le_bytes(word) as usize)
    };
    let segments = || Some((number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?));
    let Some((start, size, count)) = segments() else { return false };
    (0..count).any(|i| number(start.saturating_add(i * size), 4) == Some(PT_INTERP))
}

/// The operation under which all that fails here is known.
pub const OP: &str = "place haul";

fn outcome(output: &Said) -> Result<Outcome> {
    let clean = |words: &str| haul_core::entry::show(words.as_bytes());
    if let Some(path) = output.get("placed") {
        let home = output.get("home").filter(|home| !home.is_empty());
        let relative = home.and_then(|home| path.strip_prefix(home)?.strip_prefix('/'));
        return Ok(Outcome::Placed(clean(relative.unwrap_or(path))));
    }
    if let Some(words) = output.get("start") {
        return Ok(Outcome::CannotStart(clean(words)));
    }
    let failed = |kind, reason: String| Err(Error::new(kind, OP).because(reason));
    match output.get("failed") {
        Some(words) => failed(ErrorKind::Other, clean(words)),
        None if output.get("differs").is_some() => {
            failed(ErrorKind::Corrupt, "the installed file was damaged in transit and was removed".into())
        }
        None => failed(ErrorKind::Other, "the remote host reported no result".into()),
    }
}
