//! File attributes in an object's metadata: haul's own keys, rclone's and s3cmd's.
