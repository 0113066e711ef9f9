//! The conformance suite over FTP in extended block mode: one `globus-gridftp-server` for all checks.

use std::os::unix::fs::symlink;
use std::sync::{Arc, OnceLock};

use haul_core::error::Result;
use haul_core::place::{Host, OpenOptions, Role};
use haul_core::store::Store;
use haul_stores::ftp::FtpProvider;
use haul_stores::provider::{Access, Provider as _};
use haul_stores::registry;
use haul_test::gridftpd::GridServer;
use haul_test::store_suite;
use haul_test::suite::tools::walk;
use haul_test::suite::{Fixture, Outside};

static SERVER: OnceLock<GridServer> = OnceLock::new();

fn host(server: &GridServer) -> Result<Arc<dyn Host>> {
    let location = registry::parse(server.url("/").as_ref(), &|_| false).expect("an address");
    FtpProvider.connect(&Access::default(), &location)
}

/// A new directory, each time reached by a login of its own.
fn fixture() -> Fixture {
    let server = SERVER.get_or_init(|| GridServer::start(&[]).expect("globus-gridftp-server-progs is installed"));
    let keep = tempfile::tempdir().expect("a temporary directory");
    let path = keep.path().to_path_buf();
    let (for_links, for_names) = (path.clone(), path.clone());
    let open = move || -> Arc<dyn Store> {
        let options = OpenOptions { role: Role::Destination, ..OpenOptions::default() };
        let host = host(server).expect("it lets root in");
        host.open(path.as_os_str().as_encoded_bytes(), options).expect("a directory")
    };
    let link = move |target: &str, at: &str| symlink(target, for_links.join(at)).expect("a symlink can be made");
    let outside = Outside { link: Some(Box::new(link)), names: Some(Box::new(move || walk(&for_names))) };
    Fixture { store: open(), again: Box::new(open), outside, keep: Box::new(keep) }
}

store_suite!(globus, fixture);
