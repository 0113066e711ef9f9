//! The journal of a job: what must be known after a kill -9, and nothing else.
