//! Object stores of a run: one client for each endpoint and account, a place for each bucket.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use haul_core::entry::{Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::lock::lock;
use haul_core::place::{DataPath, Host, Location, OpenOptions, Role};
use haul_core::store::{MetaSpec, Store};
use zeroize::Zeroizing;

use super::account::AccountOptions;
use super::cache;
use super::checksum::Algorithm;
use super::flags::Flags;
use super::flat::FlatPage;
use super::open_cache::Recent;
use super::{Bucket, Client, MetadataCache, Objects, Options, PutOptions};
use haul_core::place::provider::Access;
use haul_net::http_client::parallel::in_parallel;
use haul_net::http_client::{Environment, TlsFlags};

/// Clients of this process, by what they were made for: all commands share them.
static CLIENTS: Mutex<Vec<(AccountOptions, Arc<Client>)>> = Mutex::new(Vec::new());

/// The client for the object store of an address: as the flags, the environment and the profile say.
///
/// # Errors
/// Settings that contradict each other or cannot be read, and no credentials.
pub fn client(access: &Access, location: &Location) -> Result<Arc<Client>> {
    let flags = access.get::<Flags>().of_place(location);
    let wanted = AccountOptions {
        profile: flags.profile,
        profile_alone: flags.profile_alone,
        endpoint_url: flags.endpoint_url,
        region: flags.region,
        no_sign_request: flags.no_sign_request,
        mfa_code: flags.mfa_code,
        tls: flags.tls,
        // A request that hangs is to be sent again before the run counts as stuck.
        idle_timeout: access.idle_timeout.map(|timeout| (timeout / 2).max(Duration::from_millis(500))),
        gives_up: access.idle_timeout.is_some() && !access.moves_data,
        environment: Environment::process(),
    };
    let mut known = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, client)) = known.iter().find(|(known, _)| *known == wanted) {
        return Ok(client.clone());
    }
    if wanted.tls.no_verify_ssl {
        access.print(TlsFlags::WARNING);
    }
    let client = Arc::new(Client::open(&wanted)?.printing(access.print));
    known.push((wanted, client.clone()));
    Ok(client)
}

/// The word of `--acl` for the grants of the source.
const COPY_ACL: &str = "copy";

fn options(flags: &Flags) -> Result<PutOptions> {
    Ok(PutOptions {
        headers: flags.headers().map(|value| value.cloned()),
        encryption: flags.sse.clone(),
        kms_key: flags.sse_kms_key_id.clone(),
        customer_key: flags.sse_c.as_deref().map(customer_key).transpose()?,
        acl: flags.acl.clone().filter(|acl| acl != COPY_ACL),
        copies_acl: flags.acl.as_deref() == Some(COPY_ACL),
        checksum: flags.checksum_algorithm.as_deref().and_then(Algorithm::of_word),
        metadata: flags.metadata.clone(),
        tagging: flags.tagging.clone(),
        request_payer: flags.request_payer,
        version: flags.version_id.clone(),
        no_check_etag: flags.no_check_etag,
    })
}

/// 32 bytes as they are, or their base64 in one line.
fn customer_key(path: &Path) -> Result<Zeroizing<Vec<u8>>> {
    let shown = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
    let bytes = Zeroizing::new(std::fs::read(path).map_err(|e| Error::io(e, "read the key of --sse-c").at(shown))?);
    if bytes.len() == 32 {
        return Ok(bytes);
    }
    let text = bytes.trim_ascii();
    match base64::engine::general_purpose::STANDARD.decode(text) {
        Ok(key) if key.len() == 32 => Ok(Zeroizing::new(key)),
        _ => {
            let e = Error::new(ErrorKind::Usage, "read the key of --sse-c").at(shown);
            Err(e.because("is no key: 32 bytes are, or 44 characters of base64").hint("`openssl rand -out FILE 32` makes one"))
        }
    }
}

/// A bucket and how its objects are used in this run.
#[derive(Debug)]
pub struct BucketHost {
    bucket: Bucket,
    options: Options,
    trusts: bool,
    cache: Option<Arc<MetadataCache>>,
    recent: Arc<Recent>,
}

impl BucketHost {
    /// A bucket that need not exist.
    ///
    /// # Errors
    /// No bucket's name, and those of [`client`].
    pub fn new(access: &Access, location: &Location) -> Result<BucketHost> {
        let Some(bucket) = location.host.clone() else {
            return Err(Error::new(ErrorKind::Usage, "open").because("the address names no bucket").hint("write s3://BUCKET/KEY"));
        };
        super::address::check_bucket(&bucket).map_err(|reason| {
            let e = Error::new(ErrorKind::BadName, "open").at(format!("s3://{bucket}").as_bytes());
            e.because(reason.to_string())
        })?;
        let (flags, client): (Flags, _) = (access.get(), client(access, location)?);
        if let Some(state) = &access.state_dir {
            client.remember(state);
        }
        let cache = access.state_dir.as_ref().map(|state| Arc::new(MetadataCache::open(state, &client.endpoint_words(), &bucket)));
        let bucket = Bucket { client, name: bucket, options: Arc::new(options(&flags)?) };
        let (look, map_keys, no_markers) = (!flags.server_times, flags.map_keys, flags.no_markers);
        let options = Options { look, map_keys, no_markers, ..Options::default() };
        Ok(BucketHost { bucket, options, trusts: flags.trust_metadata, cache, recent: Arc::default() })
    }

    /// The bucket that an address of this backend was reached as.
    pub fn of(host: &dyn Host) -> Result<&BucketHost> {
        (host as &dyn std::any::Any).downcast_ref().ok_or_else(|| Error::new(ErrorKind::Usage, "open").because("is no bucket"))
    }

    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    fn service(&self) -> String {
        let server = self.bucket.client.endpoint_words();
        match self.bucket.client.profile() {
            Some(profile) => format!("{server} as {profile}"),
            None => server,
        }
    }

    /// Finds out whether the bucket is there, and together with it what the run asks next.
    ///
    /// # Errors
    /// There is no such bucket: better now than once for each object.
    pub fn must_exist(&self, access: &Access, location: &Location) -> Result<()> {
        let known = &self.bucket.client.known_buckets;
        if lock(known).contains(&self.bucket.name) {
            return Ok(());
        }
        self.is_there(access, location)?;
        lock(known).insert(self.bucket.name.clone());
        Ok(())
    }

    fn is_there(&self, access: &Access, location: &Location) -> Result<()> {
        let path = self.path(location);
        let key = key(&path);
        let is_dir = key.is_empty() || key.ends_with(b"/");
        if is_dir && access.intent.lists {
            match self.first_page(key) {
                // Who may not list may write all the same.
                Ok(_) => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Denied => return Ok(()),
                Err(e) if matches!(e.kind(), ErrorKind::Broken | ErrorKind::TimedOut) => return Err(e.at(self.bucket.address().as_bytes())),
                Err(_) => {}
            }
        }
        let looks = !is_dir && access.intent.role != Role::Browse && self.bucket.options.version.is_none();
        match self.exists_beside(looks.then_some(key)) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let e = Error::new(ErrorKind::NotFound, "open").at(self.bucket.address().as_bytes());
                let e = e.because(format!("there is no bucket {} at {}", self.bucket.name, self.bucket.client.endpoint_words()));
                let server = if self.bucket.client.profile().is_some() { "the profile's endpoint_url" } else { "--endpoint-url" };
                Err(e.hint(format!("make it with `haul mb {}`, or check {server}", self.bucket.address())))
            }
            // Another request would not be answered either.
            Err(e) if matches!(e.kind(), ErrorKind::Broken | ErrorKind::TimedOut) => Err(e.at(self.bucket.address().as_bytes())),
            // An answer to HEAD has no words: a listing's has. Who may not list may write all the same.
            Err(_) => match self.bucket.page(b"", 1, &[("delimiter", "/")]) {
                Err(e) if e.kind() != ErrorKind::Denied => Err(e.at(self.bucket.address().as_bytes())),
                _ => Ok(()),
            },
        }
    }

    /// Whether the bucket is there. An object of it is looked at in the meantime.
    fn exists_beside(&self, object: Option<&[u8]>) -> Result<bool> {
        let exists = || self.bucket.exists();
        let look = || {
            // Without an answer the caller that needs it asks again, and reports the error.
            let key = object.unwrap_or_default();
            self.bucket.head(key).map(|head| self.recent.keep_ahead(key, head)).map(|()| true)
        };
        let all: [&(dyn Fn() -> Result<bool> + Sync); 2] = [&exists, &look];
        let asked = &all[..1 + usize::from(object.is_some())];
        in_parallel(&self.bucket.client.threads, asked, asked.len(), |ask| ask()).swap_remove(0)
    }

    /// Whether there is a directory at a path: a marker, or anything below it. A bucket is one even if it is empty.
    pub fn is_dir(&self, path: &[u8]) -> Result<bool> {
        let prefix = prefix(path);
        if prefix.is_empty() { Ok(true) } else { self.bucket.any_below(&prefix) }
    }

    /// [`BucketHost::is_dir`] for a directory that is listed next. With `nonempty` an empty bucket is none.
    fn is_listed_dir(&self, path: &[u8], nonempty: bool) -> Result<bool> {
        let prefix = prefix(path);
        if prefix.is_empty() && !nonempty {
            return Ok(true);
        }
        let is_empty = self.recent.of_page(&prefix, |answer| answer.page.objects.is_empty());
        is_empty.map_or_else(|| self.first_page(&prefix), Ok).map(|is_empty| !is_empty)
    }

    /// Bytes of the one object at a prefix, if that is its whole key: as a directory it is nothing.
    fn lone_content(&self, path: &[u8]) -> Option<u64> {
        let prefix = prefix(path);
        if self.options.map_keys {
            return None;
        }
        let lone = self.recent.of_page(&prefix, |FlatPage { page, .. }| match &page.objects[..] {
            [only] if only.key == prefix && only.size > 0 && page.token.is_none() => Some(only.size),
            _ => None,
        });
        lone.flatten()
    }

    /// Asks for the page that a prefix begins with, which is listed next; whether there is nothing below it.
    fn first_page(&self, prefix: &[u8]) -> Result<bool> {
        let metadata = self.options.look && self.bucket.client.is_minio() && cache::is_unknown(self.cache.as_deref());
        let page = self.bucket.flat_objects(prefix, prefix, None, metadata)?;
        let is_empty = page.page.objects.is_empty();
        self.recent.keep_page(prefix, page);
        Ok(is_empty)
    }

    fn address_of(&self, path: &[u8]) -> Vec<u8> {
        [self.bucket.address().as_bytes(), b"/", key(path)].concat()
    }

    fn empty(&self, path: &[u8]) -> Error {
        let e = Error::new(ErrorKind::NotFound, "open").at(&self.address_of(path));
        if prefix(path).is_empty() {
            let e = e.because("the bucket is empty: --delete would delete everything at the destination");
            return e.hint("if that is meant, delete it with `haul rm -r`");
        }
        let e = e.because("there is nothing below this prefix");
        e.hint("`haul ls` shows what there is; an empty directory has a marker, a key that ends in a slash")
    }

    fn objects(&self, path: &[u8], options: Options) -> Objects {
        self.store(self.bucket.clone(), path, options)
    }

    /// A store for writing, which has no old versions.
    fn written(&self, path: &[u8], options: Options) -> Objects {
        let version = self.bucket.options.version.clone();
        let bucket = self.bucket.latest();
        self.store(bucket, path, options).copying_version(version)
    }

    fn store(&self, bucket: Bucket, path: &[u8], options: Options) -> Objects {
        let store = Objects::new(bucket, key(path), options).cached(self.cache.clone()).recent(self.recent.clone());
        store.beginning_with(self.recent.take_page(&prefix(path)))
    }
}

impl Host for BucketHost {
    /// It keeps the slash at its end, which decides what is meant.
    fn path(&self, location: &Location) -> Vec<u8> {
        let mut path = [b"/", &location.path[..]].concat();
        if location.trailing_slash && !path.ends_with(b"/") {
            path.push(b'/');
        }
        path
    }

    /// Keys may have slashes side by side: what is above keeps its own.
    fn split<'p>(&self, path: &'p [u8]) -> (&'p [u8], &'p [u8]) {
        path.split_at(path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1))
    }

    /// An object is only what has just this key; `/` and what ends in a slash is a directory.
    fn lookup(&self, path: &[u8]) -> Result<Option<Kind>> {
        let key = key(path);
        if key.is_empty() || key.ends_with(b"/") {
            return Ok(Some(Kind::Dir));
        }
        let named = |e: Error| e.at(&self.address_of(path));
        if self.bucket.options.version.is_some() {
            // It is a version of the source, and any name may be asked for. What was found is of no use to the destination.
            let old = self.bucket.head(key).ok().flatten();
            let found = if old.is_some() { old } else { self.bucket.latest().head(key).map_err(named)? };
            return Ok(found.map(|_| Kind::File));
        }
        let head = self.recent.take_ahead(key, || self.bucket.head(key)).map_err(named)?;
        let kind = head.as_ref().map(|_| Kind::File);
        self.recent.keep(key, head);
        Ok(kind)
    }

    /// The marker of a directory: an empty one is nothing without it.
    fn make_dir(&self, path: &[u8], _parents: bool) -> Result<bool> {
        if self.options.no_markers {
            return Ok(false);
        }
        self.recent.forget_page();
        let store = self.written(path, Options { server_times: false, blind: true, ..self.options });
        let name = Name::of(&haul_core::entry::Dir::root());
        let entry = Entry::bare(name.clone(), Kind::Dir);
        let spec = MetaSpec { name: &name, entry: &entry, keep: MetaMask::NONE };
        store.set_meta(&[spec]).pop().unwrap_or_else(|| Ok(Default::default())).map(|_| true)
    }

    fn open(&self, path: &[u8], options: OpenOptions) -> Result<Arc<dyn Store>> {
        // A typing error must not empty the destination.
        // Who may not list may yet read what is named.
        let is_dir = || {
            let listed = self.is_listed_dir(path, options.nonempty);
            listed.or_else(|e| if e.kind() == ErrorKind::Denied { Ok(true) } else { Err(e.at(&self.address_of(path))) })
        };
        let latest = self.bucket.options.version.is_none();
        if options.role == Role::Source && (latest || options.nonempty) && !is_dir()? {
            return Err(self.empty(path));
        }
        if options.role == Role::Source
            && latest
            && let Some(size) = self.lone_content(path)
        {
            let e = Error::new(ErrorKind::BadName, "open").at(path);
            let e = e.because(format!("the key ends in a slash and the object has content ({size} bytes), and nothing is below it"));
            return Err(e.hint("--raw copies the object of just this key"));
        }
        let distrust = options.untrusted && !self.trusts;
        let no_markers = self.options.no_markers && options.role == Role::Destination;
        let blind = options.blind && options.role == Role::Destination;
        let one_object = options.one_file && options.role == Role::Destination;
        let (server_times, browses) = (options.role != Role::Destination, options.role == Role::Browse);
        let is_written = options.role == Role::Destination;
        let options = Options { server_times, distrust, blind, browses, no_markers, one_object, ..self.options };
        Ok(Arc::new(if is_written { self.written(path, options) } else { self.objects(path, options) }))
    }

    fn data_path(&self, source: &dyn Host) -> DataPath {
        let same = |other: &BucketHost| other.bucket.client.profile() == self.bucket.client.profile();
        if BucketHost::of(source).is_ok_and(same) { DataPath::Within } else { DataPath::Through }
    }

    fn describe(&self) -> String {
        format!("(S3 at {})", self.service())
    }

    fn finish(&self) {
        if let Some(cache) = &self.cache {
            cache.flush();
        }
    }
}

/// What all keys in the directory at a path begin with; empty for the bucket itself.
fn prefix(path: &[u8]) -> Vec<u8> {
    let mut prefix = key(path).to_vec();
    if !prefix.is_empty() && !prefix.ends_with(b"/") {
        prefix.push(b'/');
    }
    prefix
}

/// The key of a path, which begins with the slash that stands between bucket and key.
fn key(path: &[u8]) -> &[u8] {
    path.strip_prefix(b"/").unwrap_or(path)
}
