//! Parts of one upload to a real object store, sent by several ranks.

use std::sync::Arc;
use std::time::Duration;

use haul_core::report::Ending;
use haul_core::store::Store;
use haul_core::team::{Team, threads};
use haul_s3::{Objects, Options, PutOptions};
use haul_test::fault::{Fault, Op, Rule, What};
use haul_test::memory::Memory;
use haul_test::objects::scripted::When;
use haul_test::objects::{ObjectServer, Scripted, plain};

use super::each;
use crate::support::{Run, content, job};

const PART: usize = 5 << 20;

#[test]
fn parts_of_one_object_are_sent_by_all_ranks_and_completed_by_one() {
    let minio = ObjectServer::minio().expect("MinIO can be started: servers.sh installs it");
    minio.make_bucket("shared").expect("a bucket");
    let real = minio.endpoint();
    // The way of each rank to the server, which counts its requests.
    let ways: Vec<Scripted> = (0..3).map(|_| Scripted::before(real).expect("it listens")).collect();
    let source = Memory::new();
    let size = 26 * PART + 12_345;
    source.put("large", content("large", 1, size));
    (0..20).for_each(|i| source.put(format!("d/{i}"), content("small", i, 1000)));
    let teams = threads(3).into_iter().map(Team::new).collect();
    let reports = each(teams, &|rank| {
        let from = Fault::new(source.again());
        from.add(Rule::new(Op::Read, What::Delay(Duration::from_millis(60))).always());
        let bucket = ways[rank as usize].endpoint(real).bucket("shared", PutOptions::default());
        let to: Arc<dyn Store> = Arc::new(Objects::new(bucket, b"", Options::default()));
        let mut copy = job(Arc::new(from), to);
        copy.chunk = PART as u64;
        (copy, Run::workers(2))
    });
    assert_eq!((reports[0].ending, reports[0].failed, reports[0].made.files), (Ending::Complete, 0, 21), "{:?}", reports[0].failures);
    let count = |when: &dyn Fn() -> When| ways.iter().map(|way| way.count(&when())).collect::<Vec<_>>();
    let parts = count(&|| When::method("PUT").query("partNumber"));
    assert!(parts.iter().sum::<usize>() >= 27 && parts.iter().filter(|sent| **sent > 0).count() > 1, "parts sent by each rank: {parts:?}");
    let completed = count(&|| When::method("POST").query("uploadId"));
    assert_eq!((completed.iter().sum::<usize>(), completed[0]), (1, 1), "by its owner: {completed:?}");
    assert_eq!(count(&|| When::method("DELETE")).iter().sum::<usize>(), 0, "nobody abandons it");
    let (object, wanted) =
        (plain::request(real, "GET", "/shared/large", &[], b"").expect("an answer"), source.get("large").expect("it is there"));
    assert_eq!((object.status, object.body.len()), (200, wanted.len()));
    let differs = object.body.chunks(PART).zip(wanted.chunks(PART)).enumerate().filter(|(_, (one, other))| one != other);
    assert_eq!(differs.map(|(part, _)| part).collect::<Vec<_>>(), [0usize; 0], "parts that are not the source's");
}
