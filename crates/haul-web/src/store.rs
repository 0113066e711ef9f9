//! A directory of a web server as a store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time};
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::store::{Caps, Extensions, Flow, Found, Place, Source, Store, Tuning};
use http::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::client::{Client, Facts, WebRequest};
use super::host::Expected;
use super::page;
use super::source::WebFile;
use haul_net::http_client::etag::version;
use haul_net::http_client::parallel::in_parallel;

/// What stays as it is in a part of a path (RFC 3986, section 3.3).
const PART: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'!').remove(b'$').remove(b'\'');

/// Requests of one look at many names that are under way at the same time, and files that are read so.
const AT_ONCE: usize = 8;
/// Connections for the parts of one file: at 50 ms more of them were slower (`bench/web.sh`).
const READERS: u32 = 8;
/// Files that were looked at and not opened yet are remembered up to this many.
const SEEN_MOST: usize = 4096;

pub struct Web {
    client: Arc<Client>,
    /// Ends in a slash.
    url: Uri,
    user: Option<String>,
    expected: Expected,
    caps: Caps,
    place: Place,
    /// The one file that an address named, and that address.
    named: Option<(Vec<u8>, Uri)>,
    seen: Mutex<HashMap<Vec<u8>, Facts>>,
}

impl std::fmt::Debug for Web {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Web({})", self.place.words())
    }
}

impl Web {
    pub fn new(client: Arc<Client>, url: Uri, user: Option<String>, expected: Expected) -> Web {
        let place = Place {
            scheme: if url.scheme_str() == Some("http") { "http" } else { "https" },
            endpoint: url.authority().map_or(String::new(), ToString::to_string),
            account: user.clone().unwrap_or_default(),
            root: url.path().as_bytes().to_vec(),
            ..Place::default()
        };
        let caps =
            Caps { dirs: true, read_ranges: true, tuning: Tuning { readers_per_file: READERS, ..Tuning::minimal() }, ..Caps::minimal() };
        Web { client, url, user, expected, caps, place, named: None, seen: Mutex::default() }
    }

    /// With a file in it that was looked up. With `streams` one without a length is a stream.
    #[must_use]
    pub fn knowing(mut self, name: &[u8], url: Uri, mut facts: Facts, streams: bool) -> Web {
        if !facts.ranges {
            (self.caps.read_ranges, self.caps.tuning.readers_per_file) = (false, 1);
        }
        if let Some(query) = url.query() {
            // Names beside it are not asked for with the same query.
            self.place.volume = format!("{:016x}", version(query));
        }
        if streams && facts.size.is_none() && !facts.is_dir() {
            self.caps.streams = true;
            self.place.volume = format!("{:016x}", version(&url.to_string()));
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            facts.modified.get_or_insert(Time { secs: since.as_secs().cast_signed(), nanos: since.subsec_nanos() });
        }
        self.remember(name.to_vec(), facts);
        self.named = Some((name.to_vec(), url));
        self
    }

    fn remember(&self, path: Vec<u8>, facts: Facts) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() < SEEN_MOST {
            seen.insert(path, facts);
        }
    }

    /// The address of a name below the directory.
    fn url_of(&self, path: &[u8]) -> Result<Uri> {
        if let Some((_, url)) = self.named.as_ref().filter(|(name, _)| name == path) {
            return Ok(url.clone());
        }
        let parts: Vec<String> = path.split(|byte| *byte == b'/').map(|part| percent_encode(part, &PART).to_string()).collect();
        let origin = format!("{}://{}", self.place.scheme, self.place.endpoint);
        format!("{origin}{}{}", self.url.path(), parts.join("/"))
            .parse()
            .map_err(|_| Error::new(ErrorKind::BadName, "open").at(path).because("makes no web address"))
    }

    /// What is known of a file or asked of the server.
    fn facts(&self, path: &[u8], keep: bool) -> Result<Facts> {
        let known = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if keep { seen.get(path).cloned() } else { seen.remove(path) }
        };
        known.map_or_else(|| self.client.look(&self.url_of(path)?, self.user.as_deref()), Ok)
    }

    fn entry(&self, name: &Name, facts: &Facts) -> Result<Entry> {
        if facts.is_dir() {
            return Ok(directory(name.clone()));
        }
        let mut entry = Entry::bare(name.clone(), Kind::File);
        let Some(size) = facts.size.or(self.caps.streams.then_some(0)) else {
            let e = Error::new(ErrorKind::Unsupported, "look up").because("the server does not report the file's length");
            return Err(e.hint("copy it alone, as one stream: haul cp URL DST"));
        };
        (entry.size, entry.mode, entry.nlink, entry.have) = (size, 0o644, 1, MetaMask::BASIC);
        entry.version = facts.etag.as_deref().map_or(0, version);
        if let Some(time) = facts.modified {
            (entry.mtime, entry.have) = (time, entry.have.with(MetaMask::MTIME));
        }
        Ok(entry)
    }
}

fn directory(name: Name) -> Entry {
    let mut entry = Entry::bare(name, Kind::Dir);
    (entry.mode, entry.have) = (0o755, MetaMask::BASIC);
    entry
}

impl Store for Web {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn stat(&self, name: &Name, _want: MetaMask) -> Result<Entry> {
        let path = name.path();
        if path.is_empty() {
            return Ok(directory(name.clone()));
        }
        let entry = || {
            let facts = self.facts(&path, true)?;
            let entry = self.entry(name, &facts)?;
            self.remember(path.clone(), facts);
            Ok(entry)
        };
        entry().map_err(|e: Error| e.on(name))
    }

    fn stat_many(&self, dir: &Dir, leaves: &[&[u8]], want: MetaMask, _follow: bool) -> Vec<Found> {
        in_parallel(&self.client.threads, leaves, AT_ONCE, |leaf| match self.stat(&Name::new(dir, leaf), want) {
            Ok(entry) => Found::Entry(entry),
            Err(e) if e.kind() == ErrorKind::NotFound => Found::Absent,
            Err(e) => Found::Failed(e),
        })
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        let named = |e: Error| e.on(&Name::of(dir));
        let mut path = dir.path();
        if !path.is_empty() {
            path.push(b'/');
        }
        let url = self.url_of(&path).map_err(named)?;
        let answer = self.client.send(&WebRequest::get(&url, self.user.as_deref())).map_err(|e| match e.kind() {
            ErrorKind::Denied => {
                named(e).hint("the server may forbid lists of directories: name the files, one by one or with --files-from")
            }
            _ => named(e),
        })?;
        if !answer.is_html() {
            let e = Error::new(ErrorKind::Unsupported, "list").because("the server offers no list of this directory");
            return Err(named(e).hint("name the files, one by one or with --files-from"));
        }
        let (base, is_framed) = (answer.url.clone(), answer.is_framed());
        let page = answer.text(page::MOST_BYTES, "list").map_err(named)?;
        let page = String::from_utf8_lossy(&page);
        if !page::is_index(&base, &page) {
            let e = Error::new(ErrorKind::Unsupported, "list").because("the page is no index of a directory: a login page, an error page?");
            return Err(named(e).hint("open the address in a browser; name the files, one by one or with --files-from"));
        }
        if !is_framed && !page::is_closed(&page) {
            let e = Error::new(ErrorKind::Io, "list").remedy_is(Remedy::Again);
            return Err(named(e.because("the index page ended with the connection, before its closing tag")));
        }
        for (leaf, is_dir) in page::names(&base, &page) {
            let name = Name::new(dir, &leaf);
            let entry = if is_dir { directory(name) } else { Entry::bare(name, Kind::File) };
            if each(Ok(entry)) == Flow::Stop {
                break;
            }
        }
        Ok(())
    }

    fn open(&self, entry: &Entry, _follow: bool) -> Result<Box<dyn Source>> {
        let path = entry.name.path();
        let open = || {
            let facts = self.facts(&path, self.caps.streams)?;
            let found = self.entry(&entry.name, &facts)?;
            if found.kind != Kind::File || (!entry.is_bare() && found.stamp() != entry.stamp()) {
                return Err(Error::new(ErrorKind::Changed, "open"));
            }
            let (url, expected) = (self.url_of(&path)?, self.expected.of(&path)?);
            Ok(WebFile::new(self.client.clone(), url, self.user.clone(), found, facts, expected))
        };
        Ok(Box::new(open().map_err(|e: Error| e.on(&entry.name))?))
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions { latency: self.client.contact.latency(), ..Extensions::default() }
    }
}
