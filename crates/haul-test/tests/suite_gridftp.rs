//! The conformance suite over GridFTP with certificates: Globus's server, with data connections that are authenticated, encrypted, and
//! neither of them.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use haul_core::error::Result;
use haul_core::place::{Host, OpenOptions, Role};
use haul_core::store::Store;
use haul_stores::ftp::{Flags, FtpProvider};
use haul_stores::provider::{Access, Provider as _};
use haul_stores::registry;
use haul_test::gsiftpd::{Authority, GsiServer, Valid};
use haul_test::store_suite;
use haul_test::suite::tools::walk;
use haul_test::suite::{Fixture, Outside};

/// One server and one authority for all checks. The credential is found as that of a user is: by variables, which are the same for all.
struct Grid {
    server: GsiServer,
    _place: tempfile::TempDir,
}

fn grid() -> &'static Grid {
    static GRID: OnceLock<Grid> = OnceLock::new();
    GRID.get_or_init(|| {
        let place = tempfile::tempdir().expect("a temporary directory");
        let authority = Authority::make(&place.path().join("authority")).expect("openssl makes certificates");
        let proxy = authority.proxy("proxy", "user", Valid::LONG).expect("a proxy");
        let server = GsiServer::start(&authority, "host", &[]).expect("globus-gridftp-server-progs is installed");
        set("X509_USER_PROXY", proxy);
        set("X509_CERT_DIR", authority.trusted());
        Grid { server, _place: place }
    })
}

fn set(name: &str, value: PathBuf) {
    // SAFETY: once, before the first session is made, which is what reads it; nothing else here reads or writes the environment.
    unsafe { std::env::set_var(name, value) };
}

fn host(flags: &Flags) -> Result<Arc<dyn Host>> {
    let location = registry::parse(grid().server.url("/").as_ref(), &|_| false).expect("an address");
    FtpProvider.connect(&Access::default().with(Arc::new(flags.clone())), &location)
}

/// A new directory, each time reached by a login of its own.
fn fixture(flags: Flags) -> Fixture {
    let keep = tempfile::tempdir().expect("a temporary directory");
    let path = keep.path().to_path_buf();
    let (for_links, for_names) = (path.clone(), path.clone());
    let open = move || -> Arc<dyn Store> {
        let options = OpenOptions { role: Role::Destination, ..OpenOptions::default() };
        let host = host(&flags).expect("it lets the user in");
        host.open(path.as_os_str().as_encoded_bytes(), options).expect("a directory")
    };
    let link = move |target: &str, at: &str| symlink(target, for_links.join(at)).expect("a symlink can be made");
    let outside = Outside { link: Some(Box::new(link)), names: Some(Box::new(move || walk(&for_names))) };
    Fixture { store: open(), again: Box::new(open), outside, keep: Box::new(keep) }
}

store_suite!(authenticated, || fixture(Flags::default()));
store_suite!(encrypted, || fixture(Flags { dcpriv: true, ..Flags::default() }));
store_suite!(plain_data, || fixture(Flags { no_dcau: true, ..Flags::default() }));
