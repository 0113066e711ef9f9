//! Between object stores, whose objects need not say anything of the files that they were.

use std::sync::Arc;

use haul_core::entry::MetaMask;
use haul_core::job::ModeChange;
use haul_s3::{Objects, Options, PutOptions};
use haul_test::objects::{ObjectServer, plain};

use crate::support::{go, job};

#[test]
fn modes_and_owners_that_are_asked_for_are_given_to_what_has_none() {
    let minio = ObjectServer::minio().expect("MinIO can be started: servers.sh installs it");
    minio.make_bucket("bucket").expect("a bucket");
    let endpoint = minio.endpoint();
    plain::put(endpoint, "/bucket/from/file", b"content").expect("an object");
    let bucket = endpoint.bucket("bucket", PutOptions::default());
    let store = |prefix: &[u8]| Arc::new(Objects::new(bucket.clone(), prefix, Options::default()));
    let mut job = job(store(b"from"), store(b"to"));
    job.keep = MetaMask::MTIME.with(MetaMask::MODE).with(MetaMask::OWNER).with(MetaMask::GROUP);
    job.owner = Some((Some(1234), None));
    job.chmod = vec![ModeChange { files: true, dirs: false, keep: 0, add: 0o640, add_if_exec: 0, copy: None }];
    let (report, _) = go(job);
    assert_eq!(report.failed, 0, "{report:?}");
    let head = plain::request(endpoint, "HEAD", "/bucket/to/file", &[], b"").expect("it is there");
    let said = ["x-amz-meta-mode", "x-amz-meta-uid", "x-amz-meta-gid"].map(|name| head.header(name));
    assert_eq!(said, [Some("100640"), Some("1234"), None]);
}
