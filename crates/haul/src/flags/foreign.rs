//! Options and commands of other tools, and what haul has for them.

/// Options of other tools, and what haul has for them.
pub const FOREIGN: &[(&[&str], &str)] = &[
    (&["-?"], "help is -h or --help"),
    (&["--delete-before", "--delete-during", "--del"], "--delete deletes files after everything else succeeded"),
    (&["--info", "--outbuf"], "use --progress or --progress=SECS"),
    (&["--filter"], "use --include PATTERN and --exclude PATTERN, or --filter-from FILE"),
    (
        &["-f"],
        "existing files are replaced anyway, --force also replaces non-empty directories; filters are --include, --exclude and --filter-from",
    ),
    (&["--cvs-exclude", "-C"], "use --exclude PATTERN or --exclude-from FILE; compression is -z"),
    (&["--backup", "-b"], "use --backup-dir DIR"),
    (&["--append", "--append-verify"], "interrupted files are resumed anyway; --inplace updates files in place"),
    (&["--partial-dir", "--temp-dir", "--delay-updates"], "partial files are kept next to their final names, and resumed"),
    (
        &["-T", "--no-target-directory"],
        "write SRC/ with a slash to copy the contents of SRC into DST; partial files are kept next to their final names",
    ),
    (&["--compare-dest", "--copy-dest"], "use --link-dest DIR"),
    (&["--relative", "-R"], "--files-from LIST keeps paths relative to SRC"),
    (&["--transfers", "--checkers", "--threads", "--parallel", "--workers-max"], "haul tunes the number of workers; -j N fixes it"),
    (&["--dryrun"], "use --dry-run or -n"),
    (&["--chunksize", "--bufsize", "--s3-chunk-size"], "use --chunk-size SIZE"),
    (&["--multi-thread-streams", "--s3-upload-concurrency"], "haul tunes the workers of one file; --concurrency N fixes them"),
    (&["--no-follow-symlinks", "--no-dereference", "-d"], "symlinks are copied as symlinks by default; -L copies their targets"),
    (&["--reflink"], "haul uses reflinks and in-kernel copies by default"),
    (&["--retry-count"], "use --retries N"),
    (&["--ignore-checksum", "--checksum-choice", "--cc"], "-c compares by content; --verify reads the destination back"),
    (&["--usermap", "--groupmap"], "use --chown USER:GROUP or --numeric-ids"),
    (&["--human"], "sizes are human-readable by default; in ls, du and tree use -h"),
    (&["--log-file"], "use --log FILE"),
    (&["-3"], "between two hosts --no-direct sends all data through this machine"),
    (&["-4"], "use --ssh-option AddressFamily=inet"),
    (&["-6"], "use --ssh-option AddressFamily=inet6"),
    (&["-B"], "use --ssh-option BatchMode=yes"),
    (&["--rsync-path"], "use --agent PATH for haul on the remote host, or --agent 'sudo haul'"),
    (&["--only-show-errors"], "use -q"),
    (&["--no-clobber"], "use --ignore-existing; -n is --dry-run here"),
    (
        &["--if-size-differ", "-s"],
        "--size-only compares by size alone, and -u skips files that are newer at the destination; ls -l shows storage classes",
    ),
    (&["--if-source-newer"], "use --update or -u"),
    (&["--show-progress", "--no-progress"], "use --progress or -P; progress is shown on terminals only, and -q hides it"),
    (&["--humanize", "-H"], "use --human-readable or -h"),
    (&["--show-fullpath"], "ls -R --json shows whole keys"),
    (&["--use-list-objects-v1", "--fast-list"], "haul chooses the kind of listing by itself"),
    (&["--credentials-file"], "set AWS_SHARED_CREDENTIALS_FILE=FILE"),
    (&["--metadata-directive", "--copy-props"], "copies between buckets keep metadata and headers, and --metadata sets others"),
    (&["--force-glacier-transfer", "--ignore-glacier-warnings"], "archived objects that are not restored are errors, each named"),
    (&["--exact-timestamps"], "haul compares times exactly by default"),
    (&["--summarize"], "use `haul du -s`"),
    (&["--expected-size"], "use --part-size SIZE for more than 312 GiB of standard input"),
    (&["--no-guess-mime-type"], "use --content-type TYPE"),
    (&["--min-age"], "use --older-than AGE"),
    (&["--max-age"], "use --newer-than AGE"),
    (&["--max-duration"], "use --deadline DURATION"),
    (&["--multi-thread-cutoff", "--s3-upload-cutoff"], "haul chooses by itself which files are moved in parts"),
    (&["--flatten"], "haul keeps the directory structure; name the files one by one to copy them into one directory"),
];

const DOWNLOAD: &str = "`haul cp SRC DST` copies in both directions: from HOST:PATH or s3://BUCKET/KEY to a local path, or back";
const DELETES: &str = "`haul rm` removes files, `haul rm -r` directories";
const SAME: &str = "`haul sync --delete SRC/ DST` makes DST identical to the contents of SRC";
const SUMS: &str = "`haul sum --format sha256sum` (or md5sum ...) prints checksums, `haul check --manifest` compares them";

/// Commands of other tools, and what haul has for them.
pub const FOREIGN_COMMANDS: &[(&[&str], &str)] = &[
    (&["get", "put", "push", "pull", "fetch", "send", "upload", "download", "scp", "sftp", "transfer"], DOWNLOAD),
    (&["copy", "copyto", "copyurl", "duplicate", "clone"], "`haul cp SRC DST` copies: SRC creates DST/SRC, SRC/ means its contents"),
    (&["move", "moveto", "rename", "ren"], "`haul mv SRC DST` moves"),
    (&["mirror"], SAME),
    (&["rsync"], "`haul sync` takes rsync's options: `rsync -av --delete SRC/ DST` is `haul sync -av --delete SRC/ DST`"),
    (&["delete", "del", "remove", "rmdir", "purge", "unlink", "deletefile"], DELETES),
    (&["list", "dir", "ll", "lsl", "lsd", "lsf", "lsjson"], "use `haul ls -l`, or `haul ls -R --json` in programs"),
    (&["diff", "compare", "verify", "cmp"], "`haul check SRC DST` compares trees; -c compares by content"),
    (&["md5sum", "sha256sum", "sha1sum", "hashsum", "checksum"], SUMS),
    (&["pipe", "rcat"], "`haul cp - s3://BUCKET/KEY` writes standard input to an object"),
    (&["ncdu", "about"], "`haul du -h` shows sizes, `haul df` free space"),
    (&["link", "sign", "signurl"], "`haul presign` creates a presigned URL"),
    (&["cleanup", "abortmp", "multipart"], "`haul ls --uploads` lists unfinished uploads, `haul rm --uploads` removes them"),
    (&["la"], "`haul ls s3://` lists all buckets"),
    (&["select", "bisync", "dedupe", "mount", "serve"], "haul has no equivalent"),
    (&["stat", "info", "size"], "use `haul ls -l` for files, `haul head` for objects, `haul du -s` for totals"),
];
