//! A web server: what its addresses are, and the directories that are opened of it.

use std::sync::Arc;

use haul_core::entry::Kind;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::place::{Host, Location, OpenOptions, Role};
use haul_core::store::Store;
use http::Uri;

use super::client::{Client, Facts, WebRequest};
use super::flags::Flags;
use super::store::Web;
use super::sums::{self, Sums};
use haul_core::place::provider::Access;
use haul_net::http_client::TlsFlags;

#[derive(Debug)]
pub struct WebHost {
    client: Arc<Client>,
    /// `https://host:port`, without a path.
    origin: String,
    user: Option<String>,
    expected: Expected,
}

/// What files are verified against while they arrive.
#[derive(Clone, Debug, Default)]
pub enum Expected {
    #[default]
    Nothing,
    One([u8; 32]),
    List(Arc<Sums>),
}

impl Expected {
    /// The digest that a file must have.
    ///
    /// # Errors
    /// `Corrupt` where the list does not have the file.
    pub fn of(&self, path: &[u8]) -> Result<Option<[u8; 32]>> {
        match self {
            Expected::Nothing => Ok(None),
            Expected::One(sum) => Ok(Some(*sum)),
            Expected::List(sums) => sums.of(path).map(Some).ok_or_else(|| {
                let e = Error::new(ErrorKind::Corrupt, "verify").because("the list of --sha256sums does not have this file");
                e.hint("leave the file out, or add it to the list")
            }),
        }
    }
}

fn read_only(op: &'static str) -> Error {
    Error::new(ErrorKind::Unsupported, op).because("web servers are read-only")
}

fn no_destination(location: &[u8]) -> Error {
    read_only("write").at(location).hint("name a local path, HOST:PATH or s3://BUCKET/KEY as the destination")
}

impl WebHost {
    /// Nothing is sent but for the list of `--sha256sums`, where that is an address.
    ///
    /// # Errors
    /// No address, or no such list; `Unsupported` for a destination.
    pub fn new(access: &Access, location: &Location) -> Result<WebHost> {
        if access.intent.role == Role::Destination {
            return Err(no_destination(&location.to_bytes()));
        }
        let authority = Location { user: None, ..location.clone() }.authority();
        let origin = format!("{}://{authority}", location.scheme.word);
        let example: Uri = origin
            .parse()
            .map_err(|_| Error::new(ErrorKind::Usage, "open").at(&location.to_bytes()).because("is no address of a web server"))?;
        let client = Arc::new(Client::new(access, &example));
        if access.get::<Flags>().tls.no_verify_ssl && location.scheme == super::HTTPS {
            access.print(TlsFlags::WARNING);
        }
        let flags = access.get::<Flags>();
        let expected = match (flags.sha256, &flags.sha256sums) {
            (Some(sum), _) => Expected::One(sum),
            (None, None) => Expected::Nothing,
            (None, Some(list)) => Expected::List(Arc::new(read_list(&client, list)?)),
        };
        Ok(WebHost { client, origin, user: location.user.clone(), expected })
    }

    /// The address of a path as it was written.
    fn url(&self, path: &[u8]) -> Result<Uri> {
        let written = String::from_utf8_lossy(path);
        let base: Uri = format!("{}/", self.origin).parse().map_err(|_| bad(path))?;
        super::link::join(&base, &written).filter(|url| url.authority() == base.authority()).ok_or_else(|| bad(path))
    }

    /// The last component of the path, decoded. An address with a query is made by a program, whose own name for the file counts
    /// if it suggests one; with neither it is `index.html`, as with wget.
    fn name(&self, path: &[u8], facts: &Facts) -> Result<Vec<u8>> {
        let leaf = self.split(path).1;
        let (written, query) = leaf.iter().position(|byte| *byte == b'?').map_or((leaf, false), |at| (&leaf[..at], true));
        let name: Vec<u8> = match &facts.name {
            Some(suggested) if query => suggested.clone().into_bytes(),
            _ if written.is_empty() => b"index.html".to_vec(),
            _ => percent_encoding::percent_decode(written).collect(),
        };
        haul_core::entry::check_leaf(&name).map_err(|reason| Error::new(ErrorKind::BadName, "open").at(path).because(reason))?;
        Ok(name)
    }

    fn store(&self, path: &[u8]) -> Result<Web> {
        let mut url = self.url(path)?;
        if !url.path().ends_with('/') {
            url = format!("{}{}/", self.origin, url.path()).parse().map_err(|_| bad(path))?;
        }
        Ok(Web::new(self.client.clone(), url, self.user.clone(), self.expected.clone()))
    }
}

fn bad(path: &[u8]) -> Error {
    Error::new(ErrorKind::BadName, "open").at(path).because("is no path of a web address")
}

fn read_list(client: &Client, list: &std::ffi::OsStr) -> Result<Sums> {
    let shown = list.as_encoded_bytes();
    let url = list.to_str().filter(|text| text.starts_with("https://") || text.starts_with("http://")).and_then(|text| text.parse().ok());
    let bytes = match url {
        Some(url) => client.send(&WebRequest::get(&url, None)).and_then(|answer| answer.text(sums::MOST_BYTES, "read")),
        None => std::fs::read(list).map_err(|e| Error::io(e, "read the list of --sha256sums")),
    };
    let sums = Sums::parse(&bytes.map_err(|e| e.at(shown))?);
    if sums.is_empty() {
        let e = Error::new(ErrorKind::Usage, "read the list of --sha256sums").at(shown);
        return Err(e.because("has no lines of sha256sum").hint("each line is DIGEST, two blanks and the name"));
    }
    Ok(sums)
}

impl Host for WebHost {
    /// It keeps the slash at its end, which decides what is meant.
    fn path(&self, location: &Location) -> Vec<u8> {
        let mut path = location.path.clone();
        if path.is_empty() || (location.trailing_slash && !path.ends_with(b"/")) {
            path.push(b'/');
        }
        path
    }

    fn split<'p>(&self, path: &'p [u8]) -> (&'p [u8], &'p [u8]) {
        let end = path.iter().position(|byte| *byte == b'?').unwrap_or(path.len());
        path.split_at(path[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1))
    }

    fn lookup(&self, path: &[u8]) -> Result<Option<Kind>> {
        if path.ends_with(b"/") {
            return Ok(Some(Kind::Dir));
        }
        match self.client.look(&self.url(path)?, self.user.as_deref()) {
            Ok(facts) => Ok(Some(if facts.is_dir() { Kind::Dir } else { Kind::File })),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e.at(path)),
        }
    }

    fn make_dir(&self, path: &[u8], _parents: bool) -> Result<bool> {
        Err(read_only("mkdir").at(path))
    }

    fn open(&self, path: &[u8], options: OpenOptions) -> Result<Arc<dyn Store>> {
        if options.role == Role::Destination {
            return Err(no_destination(path));
        }
        Ok(Arc::new(self.store(path)?))
    }

    /// The file is looked up first: whether the server sends ranges of it decides how it is read.
    fn open_name(&self, path: &[u8], options: OpenOptions) -> Result<(Arc<dyn Store>, Vec<u8>)> {
        let url = self.url(path)?;
        let facts = self.client.look(&url, self.user.as_deref()).map_err(|e| e.at(path))?;
        let name = self.name(path, &facts)?;
        let store = self.store(self.split(path).0)?.knowing(&name, url, facts, options.streams);
        Ok((Arc::new(store), name))
    }
}
