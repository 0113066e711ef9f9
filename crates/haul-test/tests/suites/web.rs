//! The conformance suite over HTTP, for what it can do: nginx shows a directory, which the checks fill from beside it.

use std::path::Path;
use std::sync::Arc;

use haul_core::bundle::Bundle;
use haul_core::entry::{Dir, Entry, MetaMask, Name};
use haul_core::error::Result;
use haul_core::place::OpenOptions;
use haul_core::place::provider::{Access, Provider as _};
use haul_core::store::{Caps, Flow, Found, MetaSpec, Place, Sink, Source, Spec, Store, WriteOutcome};
use haul_local::{Local, Options};
use haul_run::registry;
use haul_test::store_suite;
use haul_test::suite::Fixture;
use haul_test::web::WebServer;
use haul_web::WebProvider;

/// Reads through the server and writes beside it.
#[derive(Debug)]
struct Beside {
    web: Arc<dyn Store>,
    local: Local,
}

impl Store for Beside {
    fn caps(&self) -> &Caps {
        self.web.caps()
    }

    fn place(&self) -> &Place {
        self.web.place()
    }

    fn stat(&self, name: &Name, want: MetaMask) -> Result<Entry> {
        self.web.stat(name, want)
    }

    fn stat_many(&self, dir: &Dir, leaves: &[&[u8]], want: MetaMask, follow: bool) -> Vec<Found> {
        self.web.stat_many(dir, leaves, want, follow)
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        self.web.list(dir, each)
    }

    fn open(&self, entry: &Entry, follow: bool) -> Result<Box<dyn Source>> {
        self.web.open(entry, follow)
    }

    fn get_bundle(&self, bundle: &mut Bundle) {
        self.web.get_bundle(bundle);
    }

    fn create(&self, name: &Name, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        self.local.create(name, spec)
    }

    fn put_bundle(&self, bundle: &mut Bundle) {
        self.local.put_bundle(bundle);
    }

    fn make_dirs(&self, dirs: &[(&Dir, u32)]) -> Vec<Result<bool>> {
        self.local.make_dirs(dirs)
    }

    fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<WriteOutcome>> {
        self.local.set_meta(specs)
    }

    fn remove(&self, entries: &[Entry]) -> Vec<Result<()>> {
        self.local.remove(entries)
    }
}

fn served(server: impl Fn(&Path) -> std::io::Result<WebServer>) -> Fixture {
    let root = tempfile::tempdir().expect("a directory");
    let server = server(root.path()).expect("a web server: nginx-light, apache2-bin and rclone are installed");
    let (path, url) = (root.path().to_path_buf(), server.url(""));
    let open = move |_: &Path| -> Result<Beside> {
        let location = registry::parse(url.as_ref(), &|_| false).expect("an address");
        let host = WebProvider.connect(&Access::default(), &location)?;
        let web = host.open(&host.path(&location), OpenOptions::default())?;
        Ok(Beside { web, local: Local::open(&path, Options::default())? })
    };
    Fixture::in_directory(root.path().to_path_buf(), open, (server, root))
}

/// What reading takes. A server tells no inodes, so a stamp is as fine as its ETag or the seconds of its clock.
macro_rules! reads {
    ($name:ident, $server:expr) => {
        mod $name {
            use super::*;

            store_suite! { @tests || served($server);
                read: any_range_can_be_read, reading_past_the_end_is_changed, a_stamp_is_that_of_the_entry,
                    a_listing_is_whole_whatever_its_size, a_listing_stops_when_told, a_directory_that_is_absent_cannot_be_listed,
                    many_names_are_looked_up_in_order, a_fifo_is_not_waited_for, a_digest_is_that_of_the_content;
                bundles: a_bad_item_fails_alone, items_that_failed_are_left_alone;
            }
        }
    };
}

reads!(nginx, |root| WebServer::nginx(root, ""));
reads!(nginx_without_ranges, |root| WebServer::nginx(root, "max_ranges 0;"));
reads!(nginx_that_compresses, |root| WebServer::nginx(root, "gzip on; gzip_types *; gzip_min_length 0;"));
reads!(apache, WebServer::apache);
reads!(rclone, WebServer::rclone);
