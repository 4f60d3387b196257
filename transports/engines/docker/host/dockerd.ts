/** A Docker Engine of this machine: finding, starting, installing one, and saying what is missing. */
export { type DockerFinding as Finding, doctorDocker } from './doctor.ts';
export { type DockerEnvironment, findDocker, searchDocker } from './find-docker.ts';
export { canInstallDocker, installDocker, mmdebstrapInstalled } from './install-docker.ts';
export { keepPrivateDockerd } from './keep-dockerd.ts';
export {
  dockerdInstalled,
  type PrivateDockerd,
  type PrivateDockerdOptions,
  privateDockerHost,
  startPrivateDockerd,
  stopPrivateDockerd,
} from './private-dockerd.ts';
