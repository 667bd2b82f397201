#!/usr/bin/env bash
# Let Cloud Scheduler start the job of job.yaml every night at 02:15 UTC.
set -euo pipefail
project=my-project region=europe-west1 job=shardmill-flowers
gcloud scheduler jobs create http "$job-every-night" \
  --project "$project" --location "$region" \
  --schedule "15 2 * * *" --time-zone Etc/UTC \
  --http-method POST \
  --uri "https://run.googleapis.com/v2/projects/$project/locations/$region/jobs/$job:run" \
  --oauth-service-account-email "shardmill@$project.iam.gserviceaccount.com"
