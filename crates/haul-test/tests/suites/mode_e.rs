//! The conformance suite over FTP in extended block mode: one `globus-gridftp-server` for all checks.

use std::sync::{Arc, OnceLock};

use haul_core::error::Result;
use haul_core::place::Host;
use haul_core::place::provider::{Access, Provider as _};
use haul_ftp::FtpProvider;
use haul_run::registry;
use haul_test::gridftpd::GridServer;
use haul_test::store_suite;
use haul_test::suite::Fixture;

static SERVER: OnceLock<GridServer> = OnceLock::new();

fn host(server: &GridServer) -> Result<Arc<dyn Host>> {
    let location = registry::parse(server.url("/").as_ref(), &|_| false).expect("an address");
    FtpProvider.connect(&Access::default(), &location)
}

fn fixture() -> Fixture {
    let server = SERVER.get_or_init(|| GridServer::start(&[]).expect("globus-gridftp-server-progs is installed"));
    Fixture::of_host(move || host(server).expect("it lets root in"))
}

store_suite!(globus, fixture);
