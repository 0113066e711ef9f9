//! What a server can do: its answers to FEAT (RFC 2389) and SITE HELP, and what is learned of it later.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::hash::Algorithm;

use super::names_proof::NamesProof;
use super::paths::Names;
use super::ranges_proof::RangesProof;
use super::reply::Reply;

/// Facts of MLST (RFC 3659) that are used, in lower case.
const FACTS: [&str; 5] = ["type", "size", "modify", "unix.mode", "unix.slink"];

/// No directory has this name. It ends with a letter of this many bytes that is not ASCII.
pub const PROBE: &[u8] = b"/.haul-no-such-directory-\xc3\xa9";
const LETTER: usize = 2;

#[derive(Debug)]
pub struct Features {
    /// Names are UTF-8 (RFC 2640).
    pub utf8: bool,
    /// Unusual names that it is known to keep.
    pub kept_names: NamesProof,
    /// The server drops everything from names that is not printable ASCII.
    pub plain: bool,
    /// MLST and MLSD, with these facts.
    pub mlst: Option<String>,
    pub mfmt: bool,
    pub chmod: bool,
    /// MDTM with a time sets it, as vsftpd does without saying so.
    pub mdtm_sets: bool,
    /// HASH (draft-bryan-ftp-hash), CKSM, and the commands that came before them.
    pub hashes: Vec<(Algorithm, HashCommand)>,
    /// Whether these commands have not been refused yet.
    pub computes: AtomicBool,
    /// A rename takes the name from another file, as on Unix.
    pub replaces: bool,
    /// RETR and STOR begin where REST says.
    pub restarts_reading: AtomicBool,
    pub restarts_writing: AtomicBool,
    /// STOR behind REST writes a range, beside other connections that write others.
    pub ranges: RangesProof,
    pub size: AtomicBool,
    pub mdtm: AtomicBool,
    pub extended_passive: AtomicBool,
    /// A port that EPSV announced was not reached: PASV was tried instead.
    pub unreached: AtomicBool,
    /// Data may come from, and go to, another server.
    pub fxp: AtomicBool,
    /// A listing has the directory itself in it: an empty one is none.
    pub lists_itself: AtomicBool,
    /// LIST takes `-a`.
    pub lists_all: AtomicBool,
    /// Extended block mode, with partial stores anywhere in a file (ESTO; GFD.20).
    pub extended_blocks: AtomicBool,
    /// Data connections go to other machines than commands (DSI remote), data nodes, of which there may be several (SPAS, SPOR).
    pub elsewhere: bool,
    /// Addresses of the data nodes that share one transfer; known after the first login.
    pub nodes: OnceLock<Vec<IpAddr>>,
    /// The same for reading (ERET), over connections that the server makes to this machine.
    pub extended_reads: AtomicBool,
    /// Commands that arrive during a transfer are answered when it is over.
    pub queues: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashCommand {
    Hash,
    /// `CKSM` (GridFTP), with the name that the algorithm has there.
    Cksm(&'static str),
    Own(&'static str),
}

const ALGORITHMS: [(Algorithm, &str, &str); 4] = [
    (Algorithm::Md5, "MD5", "XMD5"),
    (Algorithm::Sha1, "SHA-1", "XSHA1"),
    (Algorithm::Sha256, "SHA-256", "XSHA256"),
    (Algorithm::Sha512, "SHA-512", "XSHA512"),
];

pub fn hash_name(algorithm: Algorithm) -> &'static str {
    ALGORITHMS.iter().find(|(known, ..)| *known == algorithm).map_or("", |(_, name, _)| name)
}

pub fn get(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed)
}

/// The server cannot: it is not asked again.
pub fn cannot(flag: &AtomicBool) {
    flag.store(false, Ordering::Relaxed);
}

impl Features {
    /// Of the replies to FEAT, SITE HELP, SYST and a MDTM that sets the time of a file that does not exist.
    pub fn new(feat: &Reply, site: &Reply, system: &Reply, timed: &Reply) -> Features {
        let lines: Vec<String> = feat.more.iter().map(|line| String::from_utf8_lossy(line).trim().to_ascii_uppercase()).collect();
        let told = feat.is_done();
        let find = |word: &str| {
            let argument = |line: &'_ String| {
                let rest = line.strip_prefix(word)?;
                (rest.is_empty() || rest.starts_with(' ')).then(|| rest.trim().to_string())
            };
            lines.iter().find_map(argument).filter(|_| told)
        };
        let has = |word: &str| find(word).is_some();
        // A server without FEAT may have any of these.
        let maybe = |word: &str| AtomicBool::new(!told || has(word));
        let mlst = find("MLST").map(|facts| {
            let offered = facts.split(';').map(|fact| fact.trim().trim_end_matches('*').to_ascii_lowercase());
            offered.filter(|fact| FACTS.contains(&&**fact)).map(|fact| fact + ";").collect()
        });
        let named = find("HASH").unwrap_or_default();
        let named: Vec<&str> = named.split(';').map(|name| name.trim().trim_end_matches('*')).collect();
        // Each with its rank among the others: `MD5:10;SHA256:11;`
        let ranked = find("CKSM").unwrap_or_default();
        let ranked: Vec<&str> = ranked.split(';').filter_map(|name| name.trim().split(':').next()).collect();
        let hashes = ALGORITHMS.iter().filter_map(|(algorithm, name, own)| {
            // Without the X it is the name in CKSM.
            let (cksm, of_hash, of_cksm) = (&own[1..], named.contains(name), ranked.contains(&&own[1..]));
            let command = match () {
                () if of_hash => HashCommand::Hash,
                () if of_cksm => HashCommand::Cksm(cksm),
                () if has(own) => HashCommand::Own(own),
                () => return None,
            };
            Some((*algorithm, command))
        });
        let words = |reply: &Reply| {
            let all: Vec<u8> = std::iter::once(&reply.text).chain(&reply.more).flat_map(|line| [line, &b" "[..]].concat()).collect();
            String::from_utf8_lossy(&all).to_ascii_uppercase()
        };
        let elsewhere =
            find("DSI").is_some_and(|kind| kind.starts_with("REMOTE")) && ["PARALLEL", "SPAS", "SPOR"].iter().all(|word| has(word));
        // Nodes that write parts of one file side by side keep files.
        let keeps_files = elsewhere || has("PARALLEL") && find("DSI").is_some_and(|kind| kind.starts_with("FILE"));
        let restarts = find("REST").is_some_and(|how| how.contains("STREAM")) || !told;
        Features {
            utf8: has("UTF8"),
            kept_names: NamesProof::default(),
            plain: false,
            mfmt: has("MFMT"),
            // Globus's server has it, and lists it elsewhere.
            chmod: has("DSI") || site.is_done() && words(site).split([' ', ',', '\t']).any(|word| word.trim_end_matches('*') == "CHMOD"),
            mdtm_sets: !timed.is_done() && words(timed).contains("COULD NOT SET FILE MODIFICATION TIME"),
            hashes: hashes.collect(),
            computes: AtomicBool::new(true),
            replaces: !words(system).contains("WINDOWS"),
            restarts_reading: AtomicBool::new(restarts),
            restarts_writing: AtomicBool::new(restarts),
            ranges: RangesProof::default(),
            size: maybe("SIZE"),
            mdtm: maybe("MDTM"),
            // Its reply has no address.
            extended_passive: AtomicBool::new(!elsewhere),
            unreached: AtomicBool::new(false),
            elsewhere,
            nodes: OnceLock::new(),
            fxp: AtomicBool::new(true),
            lists_itself: AtomicBool::new(false),
            lists_all: AtomicBool::new(true),
            // Partial stores in any order need a server that keeps files: the others that speak this protocol write tapes or pools.
            extended_blocks: AtomicBool::new(has("ESTO") && keeps_files),
            extended_reads: AtomicBool::new(has("ERET") && keeps_files),
            queues: AtomicBool::new(true),
            mlst,
        }
    }

    /// Learns from the answer to `CWD` with [`PROBE`] which names arrive: Globus's server drops bytes from clear text.
    #[must_use]
    pub fn echoed(mut self, reply: &Reply) -> Features {
        let all: Vec<u8> = std::iter::once(&reply.text).chain(&reply.more).flatten().copied().collect();
        let ascii = &PROBE[..PROBE.len() - LETTER];
        let mut found = all.windows(PROBE.len()).filter(|part| part.starts_with(ascii)).peekable();
        self.plain = found.peek().is_some() && found.all(|part| part != PROBE);
        self
    }

    pub fn names(&self) -> Names {
        match (self.plain, self.utf8) {
            (true, _) => Names::Plain,
            (false, true) => Names::Text,
            (false, false) => Names::Any,
        }
    }

    /// Data nodes that share one transfer, where there are several.
    pub fn stripes(&self) -> usize {
        self.nodes.get().map(Vec::len).filter(|nodes| *nodes > 1).unwrap_or(0)
    }

    pub fn sets_times(&self) -> bool {
        self.mfmt || self.mdtm_sets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(code: u16, lines: &[&str]) -> Reply {
        Reply { code, text: Vec::new(), more: lines.iter().map(|line| line.as_bytes().to_vec()).collect() }
    }

    #[test]
    fn features_are_read() {
        let feat = reply(
            211,
            &[" mdtm", " SIZE", " UTF8", " REST STREAM", " MLST type*;SIZE*;modify*;UNIX.mode;x.hash;", " HASH SHA-256;MD5*", " XSHA1"],
        );
        let site = reply(214, &[" CHMOD UMASK HELP"]);
        let timed = Reply { code: 550, text: b"Could not set file modification time.".to_vec(), more: Vec::new() };
        let found = Features::new(&feat, &site, &reply(215, &["UNIX Type: L8"]), &timed);
        assert!(found.utf8 && !found.mfmt && found.chmod && found.mdtm_sets && found.replaces && get(&found.restarts_writing));
        assert_eq!(found.mlst.as_deref(), Some("type;size;modify;unix.mode;"));
        assert_eq!(found.hashes.len(), 3);
        let globus = [" CKSM MD5:10;ADLER32:10;SHA256:11;", " DSI file-13.24", " ESTO", " PARALLEL"];
        let globus = Features::new(&reply(211, &globus), &site, &reply(215, &[]), &timed);
        assert_eq!(globus.hashes, [(Algorithm::Md5, HashCommand::Cksm("MD5")), (Algorithm::Sha256, HashCommand::Cksm("SHA256"))]);
        assert!(get(&globus.extended_blocks) && !get(&found.extended_blocks));
        let none = Features::new(&reply(500, &[]), &reply(500, &[]), &reply(215, &["Windows_NT"]), &reply(550, &[]));
        assert!(!none.utf8 && none.mlst.is_none() && !none.chmod && !none.replaces && get(&none.restarts_reading) && get(&none.size));
        assert!(!get(&Features::new(&reply(211, &[]), &reply(500, &[]), &reply(215, &[]), &reply(550, &[])).size));
    }
}
