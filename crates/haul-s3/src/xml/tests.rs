use haul_core::entry::Time;
use proptest::prelude::*;

use super::*;
use crate::checksum::Algorithm;
use crate::inventory::{Line, Object, Upload};

const OBJECTS: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
  <Name>bucket</Name><Prefix/><KeyCount>3</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>true</IsTruncated>
  <NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=</NextContinuationToken>
  <Contents>
    <Key>a&amp;b &lt;c&gt;&#x20AC;</Key><LastModified>2024-01-02T03:04:05.678Z</LastModified>
    <ETag>&quot;70ee1738b6b21e2c8a43f3a5ab0eee71&quot;</ETag><ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm>
    <ChecksumType>FULL_OBJECT</ChecksumType><Size>11</Size>
    <Owner><ID>75aa57f0</ID><DisplayName>me</DisplayName></Owner><StorageClass>STANDARD</StorageClass>
  </Contents>
  <!-- a comment --><Contents><Key><![CDATA[x]]>y</Key><Size>18446744073709551615</Size></Contents>
  <CommonPrefixes><Prefix>photos/</Prefix></CommonPrefixes>
</ListBucketResult>
"#;

const ENCODED: &str = r#"<ListBucketResult><IsTruncated>true</IsTruncated><NextMarker>z%2Fend</NextMarker>
<Contents><Key>a+b%20c%2B%FF%0A/d</Key><Size>1</Size></Contents>
<CommonPrefixes><Prefix>p+q/</Prefix></CommonPrefixes><EncodingType>url</EncodingType></ListBucketResult>"#;

const VERSIONS: &str = r#"<ListVersionsResult><IsTruncated>true</IsTruncated><KeyMarker></KeyMarker>
<NextKeyMarker>b</NextKeyMarker><NextVersionIdMarker>null</NextVersionIdMarker>
<Version><Key>a</Key><VersionId>v2</VersionId><IsLatest>false</IsLatest><LastModified>2024-01-01T00:00:00Z</LastModified>
<ETag>"x"</ETag><Size>5</Size><StorageClass>GLACIER</StorageClass></Version>
<DeleteMarker><Key>a</Key><VersionId>v3</VersionId><IsLatest>true</IsLatest><LastModified>2024-01-01T00:00:01Z</LastModified></DeleteMarker>
<CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes></ListVersionsResult>"#;

const UPLOADS: &str = r#"<ListMultipartUploadsResult><Bucket>b</Bucket><NextKeyMarker>k%2F</NextKeyMarker><NextUploadIdMarker>u1</NextUploadIdMarker>
<IsTruncated>true</IsTruncated><EncodingType>url</EncodingType><Upload><Key>k%2F1</Key><UploadId>u1</UploadId><Initiator><ID>i</ID></Initiator>
<StorageClass>STANDARD</StorageClass><Initiated>2010-11-10T20:48:33.000Z</Initiated></Upload></ListMultipartUploadsResult>"#;

const PARTS: &str = r#"<ListPartsResult><UploadId>u</UploadId><NextPartNumberMarker>2</NextPartNumberMarker><IsTruncated>false</IsTruncated>
<Part><PartNumber>2</PartNumber><LastModified>2010-11-10T20:48:34.000Z</LastModified><ETag>"7778aef83f66abc1fa1e8477f296d394"</ETag>
<Size>10485760</Size><ChecksumCRC64NVME>rosUhgp5mIg=</ChecksumCRC64NVME></Part></ListPartsResult>"#;

const BUCKETS: &str = r#"<ListAllMyBucketsResult><Owner><ID>o</ID></Owner><Buckets><Bucket><Name>one</Name>
<CreationDate>2019-12-11T23:32:47+00:00</CreationDate></Bucket><Bucket><Name>two</Name><BucketRegion>eu-north-1</BucketRegion></Bucket></Buckets>
<ContinuationToken>t</ContinuationToken></ListAllMyBucketsResult>"#;

const ERROR: &str = r#"<?xml version="1.0"?><Error><Code>PermanentRedirect</Code><Message>The bucket is elsewhere.</Message>
<Endpoint>b.s3.eu-west-1.amazonaws.com</Endpoint><Region>eu-west-1</Region><BucketName>b</BucketName><RequestId>R</RequestId><HostId>H</HostId>
<ServerTime>2024-01-01T00:00:00Z</ServerTime><Deep><Er>1</Er></Deep><ArgumentName>x</ArgumentName></Error>"#;

const DELETED: &str = r#"<DeleteResult><Deleted><Key>a</Key><VersionId>v</VersionId></Deleted>
<Error><Key>b</Key><Code>AccessDenied</Code><Message>Access Denied</Message></Error></DeleteResult>"#;

const COMPLETED: &str = "  \n <?xml version=\"1.0\"?>\n<CompleteMultipartUploadResult><Location>http://x</Location><ETag>&#34;abc-2&#34;</ETag>\
    <ChecksumCRC32>AAAAAA==</ChecksumCRC32><ChecksumType>FULL_OBJECT</ChecksumType></CompleteMultipartUploadResult>";

const COPIED: &str = "<CopyPartResult><LastModified>2009-10-28T22:32:00.000Z</LastModified><ETag>\"9b2c\"</ETag></CopyPartResult>";

type Reader = fn(&[u8]) -> Result<(), Fault>;

/// Everything that reads a document.
const READERS: [Reader; 11] = [
    |d| list_objects(d).map(drop),
    |d| list_versions(d).map(drop),
    |d| list_uploads(d).map(drop),
    |d| list_parts(d).map(drop),
    |d| list_buckets(d).map(drop),
    |d| initiated(d).map(drop),
    |d| completed(d).map(drop),
    |d| copied(d).map(drop),
    |d| deleted(d).map(drop),
    |d| location(d).map(drop),
    |d| error(d).map(drop),
];

const DOCUMENTS: [&str; 10] = [OBJECTS, ENCODED, VERSIONS, UPLOADS, PARTS, BUCKETS, ERROR, DELETED, COMPLETED, COPIED];

fn in_words(object: &Object) -> String {
    let (key, modified) = (haul_core::entry::show(&object.key), object.modified.map(|time| (time.secs, time.nanos)));
    format!("{key} {} {} {modified:?} {}", object.size, object.etag, object.class)
}

/// A listing in words, each line an object or a prefix.
fn objects(document: &str) -> Result<(Vec<String>, Page), Fault> {
    let (lines, page) = list_objects(document.as_bytes())?;
    let words = |line: &Line| match line {
        Line::Object(object) => in_words(object),
        Line::Prefix(prefix) => haul_core::entry::show(prefix),
    };
    Ok((lines.iter().map(words).collect(), page))
}

#[test]
fn a_listing_gives_its_objects_prefixes_and_where_it_goes_on() {
    let (lines, page) = objects(OBJECTS).unwrap();
    assert_eq!(
        lines,
        [
            "a&b <c>€ 11 \"70ee1738b6b21e2c8a43f3a5ab0eee71\" Some((1704164645, 678000000)) STANDARD",
            "xy 18446744073709551615  None ",
            "photos/",
        ]
    );
    assert_eq!(page.token.as_deref(), Some("1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM="));
    assert!(page.truncated && page.marker.is_none());
}

#[test]
fn encoded_keys_are_decoded_wherever_the_document_says_that_they_are() {
    let (lines, page) = objects(ENCODED).unwrap();
    assert_eq!(lines, ["a b c+\\xff\\n/d 1  None ", "p q/"]);
    assert_eq!(page.marker.as_deref(), Some(&b"z/end"[..]));
    // Without the word nothing is decoded.
    let plain = ENCODED.replace("<EncodingType>url</EncodingType>", "");
    let (lines, page) = objects(&plain).unwrap();
    assert_eq!(lines, ["a+b%20c%2B%FF%0A/d 1  None ", "p+q/"]);
    assert_eq!(page.marker.as_deref(), Some(&b"z%2Fend"[..]));
    // A key that looks like the word does not change what the others are.
    let key = "<ListBucketResult><Contents><Key><![CDATA[EncodingType>url</]]></Key><Size>1</Size></Contents></ListBucketResult>";
    assert!(matches!(objects(key), Err(Fault::Bad { element: "EncodingType", .. })));
    for broken in ["%", "%4", "%zz", "%+1"] {
        let document = ENCODED.replace("a+b", broken);
        assert!(matches!(objects(&document), Err(Fault::Bad { element: "Key", .. })), "{broken}");
    }
}

#[test]
fn the_older_listing_goes_on_behind_its_last_name() {
    let list = |inner: &str| objects(&format!("<ListBucketResult><IsTruncated>true</IsTruncated>{inner}</ListBucketResult>"));
    let object = |key: &str| format!("<Contents><Key>{key}</Key><Size>0</Size></Contents>");
    let (_, page) = list(&(object("a") + &object("b") + "<CommonPrefixes><Prefix>aa/</Prefix></CommonPrefixes>")).unwrap();
    assert_eq!(page.marker.as_deref(), Some(&b"b"[..]));
    let (_, page) = list(&(object("a") + "<CommonPrefixes><Prefix>b/</Prefix></CommonPrefixes>")).unwrap();
    assert_eq!(page.marker.as_deref(), Some(&b"b/"[..]));
    // More, but nothing that says where.
    assert!(matches!(list(""), Err(Fault::Missing { .. })));
}

#[test]
fn an_object_without_a_key_or_a_size_is_no_object() {
    for (inner, element) in [
        ("<Size>1</Size>", "Key"),
        ("<Key/><Size>1</Size>", "Key"),
        ("<Key></Key><Size>1</Size>", "Key"),
        ("<Key>a</Key>", "Size"),
        ("", "Key"),
    ] {
        let document = format!("<ListBucketResult><Contents>{inner}</Contents></ListBucketResult>");
        assert_eq!(objects(&document), Err(Fault::Missing { element, within: "Contents" }), "{inner}");
    }
    for size in ["-1", "1.5", "18446744073709551616", "0x10", "", "+1", "one"] {
        let document = format!("<ListBucketResult><Contents><Key>a</Key><Size>{size}</Size></Contents></ListBucketResult>");
        assert!(matches!(objects(&document), Err(Fault::Bad { element: "Size", .. })), "{size}");
    }
}

#[test]
fn versions_and_marks_of_deletion_are_told_apart() {
    let (versions, page) = list_versions(VERSIONS.as_bytes()).unwrap();
    let told: Vec<_> = versions.iter().map(|v| (in_words(&v.object), &*v.id, v.latest, v.deleted)).collect();
    let old = ("a 5 \"x\" Some((1704067200, 0)) GLACIER".to_string(), "v2", false, false);
    assert_eq!(told, [old, ("a 0  Some((1704067201, 0)) ".to_string(), "v3", true, true)]);
    assert_eq!(page, Page { truncated: true, marker: Some(b"b".to_vec()), token: Some("null".into()) });
    let without = VERSIONS.replace("<NextKeyMarker>b</NextKeyMarker>", "");
    assert!(matches!(list_versions(without.as_bytes()), Err(Fault::Missing { element: "NextKeyMarker", .. })));
    for (element, within) in [("VersionId", "Version"), ("VersionId", "DeleteMarker"), ("Size", "Version")] {
        let without = VERSIONS.replace(&format!("<{element}>"), "<Other>").replace(&format!("</{element}>"), "</Other>");
        let without = if within == "DeleteMarker" { without.replace("<Other>v2</Other>", "<VersionId>v2</VersionId>") } else { without };
        assert_eq!(list_versions(without.as_bytes()).map(drop), Err(Fault::Missing { element, within }));
    }
}

#[test]
fn uploads_and_their_parts_are_listed() {
    let (uploads, page) = list_uploads(UPLOADS.as_bytes()).unwrap();
    assert_eq!(uploads, [Upload { key: b"k/1".to_vec(), id: "u1".into(), initiated: Some(Time { secs: 1_289_422_113, nanos: 0 }) }]);
    assert_eq!(page, Page { truncated: true, marker: Some(b"k/".to_vec()), token: Some("u1".into()) });

    let part = Part { number: 2, size: 10_485_760, etag: "\"7778aef83f66abc1fa1e8477f296d394\"".into() };
    assert_eq!(list_parts(PARTS.as_bytes()), Ok((vec![part.clone()], None)));
    // The last number serves where the document does not say one.
    for more in [PARTS.replace(">false<", ">true<"), PARTS.replace(">false<", ">true<").replace("Marker>2<", "Marker><")] {
        assert_eq!(list_parts(more.as_bytes()), Ok((vec![part.clone()], Some(2))));
    }
    for number in ["0", "10001", "-1", "4294967297"] {
        let document = PARTS.replace("<PartNumber>2<", &format!("<PartNumber>{number}<"));
        assert!(matches!(list_parts(document.as_bytes()), Err(Fault::Bad { .. })), "{number}");
    }
}

#[test]
fn the_small_answers_are_read() {
    let (buckets, token) = list_buckets(BUCKETS.as_bytes()).unwrap();
    assert_eq!(buckets[0], Bucket { name: "one".into(), created: Some(Time { secs: 1_576_107_167, nanos: 0 }), region: String::new() });
    assert_eq!((buckets[1].name.as_str(), buckets[1].region.as_str(), token.as_deref()), ("two", "eu-north-1", Some("t")));

    assert_eq!(
        initiated(b"<InitiateMultipartUploadResult><Key>k</Key><UploadId>VXBsb2Fk</UploadId></InitiateMultipartUploadResult>").unwrap(),
        "VXBsb2Fk"
    );
    let done = completed(COMPLETED.as_bytes()).unwrap();
    assert_eq!((done.etag.as_str(), done.checksum_type.as_str()), ("\"abc-2\"", "FULL_OBJECT"));
    assert_eq!(done.checksums, [(Algorithm::Crc32, "AAAAAA==".to_owned())]);
    let copy = copied(COPIED.as_bytes()).unwrap();
    assert_eq!(copy.etag, "\"9b2c\"");

    // What is gone and what is not may come in any order.
    let gone = deleted(DELETED.replace("<DeleteResult>", "<DeleteResult><Error><Key> c &amp;</Key></Error>").as_bytes()).unwrap();
    assert_eq!(gone.iter().map(|refused| (&*refused.key, &*refused.code)).collect::<Vec<_>>(), [(" c &", ""), ("b", "AccessDenied")]);

    let region = |inner: &str| location(format!("<LocationConstraint xmlns=\"x\">{inner}</LocationConstraint>").as_bytes()).unwrap();
    assert_eq!(region("eu-central-1"), "eu-central-1");
    assert_eq!(region("EU"), "eu-west-1");
    assert_eq!(region(""), "us-east-1");
    assert_eq!(region("<LocationConstraint>ap-east-1</LocationConstraint>"), "ap-east-1");
    assert_eq!(location(b"<LocationConstraint/>").unwrap(), "us-east-1");
}

/// Some services write a prefix before each name.
#[test]
fn prefixes_are_no_part_of_names() {
    for document in DOCUMENTS {
        let named = |rest: &str| rest.starts_with(|first: char| first.is_ascii_alphabetic());
        let mut prefixed = document.split('<').fold(String::new(), |text, rest| match rest.strip_prefix('/') {
            Some(name) => text + "</s3:" + name,
            None if named(rest) => text + "<s3:" + rest,
            None => text + "<" + rest,
        });
        // In front of the first there was none.
        prefixed.remove(0);
        let name = prefixed.find("<s3:").map(|at| at + prefixed[at..].find([' ', '>']).unwrap()).unwrap();
        prefixed.insert_str(name, " xmlns:s3=\"urn:s3\"");
        for reader in READERS {
            assert_eq!(reader(prefixed.as_bytes()).is_ok(), reader(document.as_bytes()).is_ok(), "{prefixed}");
        }
    }
    let made = |root: &str| {
        format!("<a:{root} xmlns:a=\"urn:s3\"><a:ETag>&quot;e&quot;</a:ETag><a:ChecksumSHA256>c=</a:ChecksumSHA256></a:{root}>")
    };
    assert_eq!(completed(made("CompleteMultipartUploadResult").as_bytes()).unwrap().etag, "\"e\"");
    assert_eq!(copied(made("CopyObjectResult").as_bytes()).unwrap().etag, "\"e\"");
    let removed = "<a:DeleteResult xmlns:a=\"urn:s3\"><a:Deleted><a:Key>x</a:Key></a:Deleted>\
                   <a:Error><a:Key>y</a:Key><a:Code>AccessDenied</a:Code><a:Message>no</a:Message></a:Error></a:DeleteResult>";
    let refused = deleted(removed.as_bytes()).unwrap();
    assert_eq!((refused.len(), &refused[0].key[..], &refused[0].code[..]), (1, "y", "AccessDenied"));
}

/// `rclone serve s3`, moto and others name the roots of their answers otherwise.
#[test]
fn an_answer_is_known_by_what_is_in_it() {
    for document in DOCUMENTS {
        let root = document.rsplit_once("</").unwrap().1.trim_end().trim_end_matches('>');
        let renamed = document.replace(&format!("<{root}"), "<Other").replace(&format!("</{root}>"), "</Other>");
        for reader in READERS {
            if reader(document.as_bytes()).is_ok() && root != "Error" {
                assert_eq!(reader(renamed.as_bytes()), Ok(()), "{renamed}");
                assert!(reader(b"<html><body>Hello</body></html>").is_err() && reader(b"<Other/>").is_err());
            }
        }
    }
    let begun = "<InitiateMultipartUpload xmlns=\"urn:s3\"><Bucket>b</Bucket><UploadId xmlns=\"\">7</UploadId></InitiateMultipartUpload>";
    assert_eq!(initiated(begun.as_bytes()).unwrap(), "7");
}

#[test]
fn an_error_is_read_with_all_that_it_says() {
    let e = error(ERROR.as_bytes()).unwrap();
    assert_eq!([&e.code, &e.region, &e.request_id].map(String::as_str), ["PermanentRedirect", "eu-west-1", "R"]);
    assert_eq!(e.to_string(), "The bucket is elsewhere (PermanentRedirect)");
    let wrapped = b"<ErrorResponse><Error><Type>Sender</Type><Code>ExpiredToken</Code></Error><RequestId>R</RequestId></ErrorResponse>";
    let e = error(wrapped).unwrap();
    assert_eq!((e.code.as_str(), e.request_id.as_str()), ("ExpiredToken", "R"));
    assert!(error(b"<html><body>Bad Gateway</body></html>").is_err());
}

#[test]
fn an_error_in_place_of_an_answer_is_the_services_error() {
    for reader in READERS.iter().take(9) {
        match reader(ERROR.as_bytes()) {
            Err(Fault::Service(error)) => assert_eq!(error.code, "PermanentRedirect"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_hostile_is_an_error() {
    let bomb = "<a>".repeat(100_000);
    let nested = format!("<ListBucketResult><X>{bomb}");
    let entities = r#"<!DOCTYPE l [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><ListBucketResult><Name>&b;</Name></ListBucketResult>"#;
    let entity = "<ListBucketResult><NextMarker>&xxe;</NextMarker></ListBucketResult>";
    let zero = "<ListBucketResult><NextMarker>&#0;</NextMarker></ListBucketResult>";
    let attributes = "<ListBucketResult><NextMarker a='>'>x</NextMarke></ListBucketResult>";
    let huge = format!("<ListBucketResult><NextMarker>{}</NextMarker></ListBucketResult>", "x".repeat(1 << 20));
    let pieces = format!("<ListBucketResult><NextMarker>{}</NextMarker></ListBucketResult>", "<![CDATA[xxxxxxxx]]>".repeat(10_000));
    let latin = "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><ListBucketResult></ListBucketResult>";
    let torn = "<ListBucketResult><IsTruncated>false</IsTruncated>";
    let crossed = "<ListBucketResult><IsTruncated>false</ListBucketResult></IsTruncated>";
    let text = "<ListBucketResult>hello</ListBucketResult>";
    for document in [
        &bomb, &nested, entities, entity, zero, attributes, &huge, &pieces, latin, torn, crossed, text, "", "  ", "hello", "<", "<a",
        "<html/>",
    ] {
        let answer = objects(document);
        assert!(answer.is_err(), "{}", &document[..document.len().min(80)]);
        assert!(answer.unwrap_err().to_string().len() < 400);
    }
    for document in DOCUMENTS {
        let root = document.rsplit_once("</").unwrap().1.trim_end();
        let (entities, xxe) = (entities.replace("ListBucketResult>", root), format!("<{root}<Code>&xxe;</Code><ETag>&xxe;</ETag></{root}"));
        for document in [format!("<{root}{bomb}"), format!("<{root}<ETag>{bomb}"), entities] {
            assert!(READERS.iter().all(|reader| reader(document.as_bytes()).is_err()), "{}", &document[..document.len().min(80)]);
        }
        assert!(READERS[5..8].iter().all(|reader| reader(xxe.as_bytes()).is_err()), "{xxe}");
    }
    assert!(list_objects(b"<ListBucketResult><NextMarker>\xff</NextMarker></ListBucketResult>").is_err());
    assert!(list_objects(b"\xff\xfe<\0a\0>\0").is_err());
    // Namespaces, a mark of the byte order and blanks are usual.
    let prefixed =
        "\u{feff}<?xml version='1.0'?><s3:ListBucketResult xmlns:s3='x'><s3:IsTruncated> false </s3:IsTruncated></s3:ListBucketResult>\n";
    assert_eq!(objects(prefixed).unwrap().1, Page::default());
}

#[test]
fn documents_for_the_service_are_escaped() {
    let part = CompletePart { number: 1, etag: "\"a&b\"", checksum: Some((Algorithm::Crc64Nvme, "rosUhgp5mIg=")) };
    assert_eq!(
        complete_upload([part]),
        "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Part>\
         <ChecksumCRC64NVME>rosUhgp5mIg=</ChecksumCRC64NVME><ETag>&quot;a&amp;b&quot;</ETag><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>"
    );
    let body = delete_objects([(&b"a<\r\n\xc3\xa9"[..], ""), (b"b", "v1")], true).unwrap();
    assert_eq!(
        body,
        "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Object><Key>a&lt;&#13;&#10;\u{e9}</Key></Object>\
         <Object><Key>b</Key><VersionId>v1</VersionId></Object><Quiet>true</Quiet></Delete>"
    );
    assert_eq!(delete_objects([(&b"a"[..], ""), (b"\x01", "")], false), Err(1));
    assert_eq!(delete_objects([(&b"\xff"[..], "")], false), Err(0));
    assert_eq!(create_bucket("us-east-1"), None);
    assert!(create_bucket("eu-west-1").unwrap().contains("<LocationConstraint>eu-west-1</LocationConstraint>"));
}

/// What a key may hold in a document: anything that XML can.
fn keys() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9/._-]{1,40}",
        proptest::collection::vec(any::<char>(), 1..40).prop_map(|chars| {
            let key: String = chars.into_iter().filter(|c| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}')).collect();
            key + "k"
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_key_comes_back_through_a_document(key in keys(), encoded in any::<bool>()) {
        let written = match encoded {
            true => key.bytes().map(|b| match b {
                b' ' => "+".to_owned(),
                b if b.is_ascii_alphanumeric() => char::from(b).to_string(),
                b => format!("%{b:02X}"),
            }).collect::<String>(),
            false => key.chars().map(|c| match c {
                '&' => "&amp;".to_owned(),
                '<' => "&lt;".to_owned(),
                c => c.to_string(),
            }).collect(),
        };
        let encoding = if encoded { "<EncodingType>url</EncodingType>" } else { "" };
        let document = format!("<ListBucketResult>{encoding}<Contents><Key>{written}</Key><Size>7</Size></Contents></ListBucketResult>");
        let (lines, _) = list_objects(document.as_bytes()).unwrap();
        prop_assert_eq!(lines.iter().map(Line::key).collect::<Vec<_>>(), [key.as_bytes()]);
    }

    /// Any damage ends in an answer or a fault, never in a panic or a loop.
    #[test]
    fn a_damaged_document_is_read_or_refused(
        which in 0..DOCUMENTS.len(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), 0..4u8, prop_oneof![any::<u8>(), prop::sample::select(b"<>&;/!?-[]\"'= \n%+".to_vec())]), 1..8),
    ) {
        let mut document = DOCUMENTS[which].as_bytes().to_vec();
        for (at, how, byte) in damage {
            if document.is_empty() {
                break;
            }
            let at = at.index(document.len());
            match how {
                0 => document[at] = byte,
                1 => document.insert(at, byte),
                2 => drop(document.remove(at)),
                _ => document.truncate(at),
            }
        }
        for reader in READERS {
            if let Err(fault) = reader(&document) {
                prop_assert!(fault.to_string().len() < 8192);
            }
        }
    }

    /// Every document that is cut short is refused: half a listing must not pass for a whole one.
    #[test]
    fn a_document_that_is_cut_short_is_refused(which in 0..DOCUMENTS.len(), at in any::<prop::sample::Index>()) {
        let document = DOCUMENTS[which].trim_ascii();
        let cut = &document.as_bytes()[..at.index(document.len())];
        for reader in READERS {
            prop_assert!(reader(cut).is_err());
        }
    }
}

#[test]
fn tags_are_read() {
    let document = "<Tagging><TagSet><Tag><Key>a b</Key><Value>&lt;&amp;></Value></Tag><Tag><Key>ä</Key><Value> x </Value></Tag><Tag><Key>e</Key></Tag></TagSet></Tagging>";
    let read = tags(document.as_bytes()).expect("it is a document");
    assert_eq!(read.iter().map(|(key, value)| (&**key, &**value)).collect::<Vec<_>>(), [("a b", "<&>"), ("ä", " x "), ("e", "")]);
    assert_eq!(tags(b"<Tagging><TagSet/></Tagging>"), Ok(vec![]));
    assert!(tags(b"<Tagging><TagSet><Tag><Value>x</Value></Tag></TagSet></Tagging>").is_err());
}
