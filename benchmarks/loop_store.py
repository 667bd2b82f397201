"""What bench_store compares with: `loop_store.py ADDRESS BUCKET IMAGES`, the loop that reads an image of a store,
writes it, and reads the next; the one file is uploaded at its end. It says how long that took, start-up left out."""

import json
import sys
import tempfile
import time

import boto3
import tensorflow as tf


def main(address: str, bucket: str, images: int) -> None:
    access = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    client = boto3.client("s3", endpoint_url=address, **access)
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="in/")
    keys = [item["Key"] for page in pages for item in page["Contents"]][:images]
    classes = {name: index for index, name in enumerate(sorted({key.split("/")[1] for key in keys}))}
    start = time.perf_counter()
    with tempfile.NamedTemporaryFile() as output:
        with tf.io.TFRecordWriter(output.name) as writer:
            for key in keys:
                image = client.get_object(Bucket=bucket, Key=key)["Body"].read()
                label, filename = key.split("/")[-2:]
                features = {
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[classes[label]])),
                    "filename": tf.train.Feature(bytes_list=tf.train.BytesList(value=[filename.encode()])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=features))
                writer.write(example.SerializeToString())
        client.upload_file(output.name, bucket, "loop.tfrecord")
    print(json.dumps({"seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
