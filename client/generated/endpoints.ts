/** Written by scripts/client-endpoints.mjs from the endpoint table of proto/. Do not edit it. */
import type * as authActors from '../../proto/auth/actors.ts';
import type * as authAdmin from '../../proto/auth/admin.ts';
import type * as authApiTokens from '../../proto/auth/api-tokens.ts';
import type * as authDevice from '../../proto/auth/device.ts';
import type * as authEndpoints from '../../proto/auth/endpoints.ts';
import type * as authPlatform from '../../proto/auth/platform.ts';
import type * as authRegistry from '../../proto/auth/registry.ts';
import type * as authSecurityKeys from '../../proto/auth/security-keys.ts';
import type * as computeEndpoints from '../../proto/compute/endpoints.ts';
import type * as computeExec from '../../proto/compute/exec.ts';
import type * as computeFiles from '../../proto/compute/files.ts';
import type * as computeImages from '../../proto/compute/images.ts';
import type * as computeLogs from '../../proto/compute/logs.ts';
import type * as computeNameListing from '../../proto/compute/name-listing.ts';
import type * as computeRevisions from '../../proto/compute/revisions.ts';
import type * as computeSettings from '../../proto/compute/settings.ts';
import type * as computeWorkload from '../../proto/compute/workload.ts';
import type * as monitorEndpoints from '../../proto/monitor/endpoints.ts';
import type * as networkEndpoints from '../../proto/network/endpoints.ts';
import type * as networkTools from '../../proto/network/tools.ts';
import type * as notifyEndpoints from '../../proto/notify/endpoints.ts';
import type * as notifyMail from '../../proto/notify/mail.ts';
import type * as notifyWebhooks from '../../proto/notify/webhooks.ts';

/** Kind and path of each endpoint: a method, WS for a socket, or SSE for an event stream. */
export const ENDPOINTS = {
  actOnActor: 'POST /api/runtime/actor',
  addIngress: 'POST /compute/containers/{id}/ingress',
  addMute: 'PUT /api/notifications/mutes',
  addWebhook: 'POST /api/notifications/webhooks',
  adminAddRoute: 'POST /api/admin/routes',
  adminAddUser: 'POST /api/admin/users',
  adminAudit: 'GET /api/admin/audit',
  adminChangeUser: 'PATCH /api/admin/users/{id}',
  adminDeleteContainer: 'DELETE /compute/admin/containers/{id}',
  adminDeleteRoute: 'DELETE /api/admin/routes/{id}',
  adminDisableUser: 'POST /api/admin/users/{id}/disable',
  adminDrainNode: 'POST /api/admin/nodes/{id}/drain',
  adminEnableUser: 'POST /api/admin/users/{id}/enable',
  adminEndSessions: 'DELETE /api/admin/users/{id}/sessions',
  adminForgetKeys: 'DELETE /api/admin/users/{id}/keys',
  adminListRoutes: 'GET /api/admin/routes',
  adminListSessions: 'GET /api/admin/users/{id}/sessions',
  adminListUsers: 'GET /api/admin/users',
  adminNodes: 'GET /api/admin/nodes',
  adminPasswordLink: 'POST /api/admin/users/{id}/password-link',
  adminRemoveUser: 'DELETE /api/admin/users/{id}',
  adminSetPassword: 'POST /api/admin/users/{id}/password',
  adminStopContainer: 'POST /compute/admin/containers/{id}/stop',
  adminUndrainNode: 'DELETE /api/admin/nodes/{id}/drain',
  approveDevice: 'POST /api/device/approve',
  beginAddKey: 'POST /api/settings/keys/add/begin',
  beginDevice: 'POST /api/device',
  beginKeyLogin: 'POST /api/webauthn/login/begin',
  changeIngress: 'PATCH /compute/containers/{id}/ingress/{port}',
  changeMapping: 'PATCH /api/domain-mappings/{id}',
  changePassword: 'PUT /api/settings/password',
  checkToken: 'GET /api/tokens/{id}/check',
  clusterEvents: 'SSE /sse/cluster-info',
  clusterInfo: 'GET /cluster-info',
  clusterSocket: 'WS /ws/cluster-info',
  computeSocket: 'WS /compute/ws',
  connectDomain: 'POST /api/domains',
  createContainer: 'POST /compute/containers',
  createMapping: 'POST /api/domain-mappings',
  createServiceAccount: 'POST /api/service-accounts',
  createServiceAccountToken: 'POST /api/service-accounts/{id}/tokens',
  createSshKey: 'POST /compute/ssh-keys',
  createToken: 'POST /api/tokens',
  deleteContainer: 'DELETE /compute/containers/{id}',
  deleteIngress: 'DELETE /compute/containers/{id}/ingress/{port}',
  deleteKey: 'POST /api/settings/keys/delete',
  deleteMapping: 'DELETE /api/domain-mappings/{id}',
  deleteServiceAccount: 'DELETE /api/service-accounts/{id}',
  deleteSshKey: 'DELETE /compute/ssh-keys/{id}',
  deleteToken: 'DELETE /api/tokens/{id}',
  deleteWebhook: 'DELETE /api/notifications/webhooks/{id}',
  dependencyGraph: 'GET /api/graph/dependencies',
  deviceToken: 'POST /api/device/token',
  disconnectDomain: 'DELETE /api/domains/{id}',
  endOtherSessions: 'DELETE /api/settings/sessions',
  endSession: 'DELETE /api/settings/sessions/{id}',
  enterIngress: 'POST /compute/containers/{id}/ingress/{port}/entry',
  execContainer: 'WS /compute/containers/{id}/exec',
  finishAddKey: 'POST /api/settings/keys/add/finish',
  finishKeyLogin: 'POST /api/webauthn/login/finish',
  forgetAnswers: 'DELETE /compute/containers/{id}/kept-answers',
  getContainer: 'GET /compute/containers/{id}',
  getMail: 'GET /api/notifications/mail',
  getMounts: 'GET /compute/containers/{id}/mounts',
  getServiceAccount: 'GET /api/service-accounts/{id}',
  getSettings: 'GET /compute/containers/{id}/settings',
  getSsh: 'GET /compute/containers/{id}/ssh',
  getWebhook: 'GET /api/notifications/webhooks/{id}',
  healthEvents: 'SSE /sse/health',
  listActors: 'GET /api/runtime/actors',
  listAddressNames: 'GET /compute/address-names',
  listAllContainers: 'GET /compute/admin/containers',
  listContainers: 'GET /compute/containers',
  listImages: 'GET /compute/images',
  listIngress: 'GET /compute/containers/{id}/ingress',
  listKeys: 'GET /api/settings/keys',
  listMappings: 'GET /api/domain-mappings',
  listMutes: 'GET /api/notifications/mutes',
  listNotifications: 'GET /api/notifications',
  listOwnedDomains: 'GET /api/domains',
  listRevisions: 'GET /compute/containers/{id}/revisions',
  listServiceAccountTokens: 'GET /api/service-accounts/{id}/tokens',
  listServiceAccounts: 'GET /api/service-accounts',
  listSessions: 'GET /api/settings/sessions',
  listSshKeys: 'GET /compute/ssh-keys',
  listTokens: 'GET /api/tokens',
  listWebhookDeliveries: 'GET /api/notifications/webhooks/{id}/deliveries',
  listWebhooks: 'GET /api/notifications/webhooks',
  login: 'POST /api/login',
  logout: 'POST /api/logout',
  logs: 'WS /compute/containers/{id}/logs',
  markAllRead: 'POST /api/notifications/read-all',
  markRead: 'POST /api/notifications/{id}/read',
  metricsHistory: 'GET /api/metrics/history',
  nodeMetrics: 'GET /api/metrics/nodes',
  notificationSocket: 'WS /ws/notifications',
  ownRegistryToken: 'GET /api/registry/token',
  podEvents: 'SSE /sse/pod-metrics',
  podMetrics: 'GET /pod-metrics',
  podMetricsByNamespace: 'GET /api/metrics/pods',
  podSocket: 'WS /ws/pod-metrics',
  readFiles: 'GET /compute/containers/{id}/files',
  readLogs: 'GET /compute/containers/{id}/logs',
  refreshDomain: 'POST /api/domains/{id}/refresh',
  registryToken: 'GET /v2/token',
  registryUsage: 'GET /api/registry/usage',
  removeFiles: 'DELETE /compute/containers/{id}/files',
  removeMute: 'DELETE /api/notifications/mutes',
  renameKey: 'POST /api/settings/keys/rename',
  renewSession: 'POST /api/session/renew',
  rotateWebhook: 'POST /api/notifications/webhooks/{id}/rotate',
  session: 'GET /api/session',
  setMail: 'PUT /api/notifications/mail',
  setMounts: 'PUT /compute/containers/{id}/mounts',
  setPullPolicy: 'PUT /compute/containers/{id}/pull-policy',
  setServiceAccountScopes: 'PUT /api/service-accounts/{id}/scopes',
  setSsh: 'PUT /compute/containers/{id}/ssh',
  setSshKeyLogin: 'PUT /compute/ssh-keys/{id}/login',
  showActor: 'GET /api/runtime/actor',
  showPasswordLink: 'POST /api/password-link',
  showPlatform: 'GET /api/platform',
  showPlatformApi: 'GET /api/platform/openapi.json',
  showPlatformFacts: 'GET /api/platform/facts',
  startContainer: 'POST /compute/containers/{id}/start',
  stopContainer: 'POST /compute/containers/{id}/stop',
  terminal: 'WS /compute/containers/{id}/terminal',
  testWebhook: 'POST /api/notifications/webhooks/{id}/test',
  unreadCount: 'GET /api/notifications/unread-count',
  updateContainer: 'PATCH /compute/containers/{id}',
  updateProfile: 'PUT /api/settings/profile',
  updateWebhook: 'PATCH /api/notifications/webhooks/{id}',
  usePasswordLink: 'POST /api/password-link/use',
  useTools: 'POST /mcp',
  verifyMail: 'POST /api/notifications/mail/verify',
  verifyMapping: 'POST /api/domain-mappings/{id}/verify',
  writeFiles: 'PUT /compute/containers/{id}/files',
} as const;

/** Names of those that take an Idempotency-Key. */
export const KEYED: ReadonlySet<string> = new Set([
  'addIngress',
  'addWebhook',
  'adminAddRoute',
  'adminAddUser',
  'adminStopContainer',
  'connectDomain',
  'createContainer',
  'createMapping',
  'createServiceAccount',
  'createServiceAccountToken',
  'createSshKey',
  'createToken',
  'startContainer',
  'stopContainer',
]);

/** The definition of each endpoint, for types. */
export interface Definitions {
  readonly actOnActor: typeof authActors.actOnActor;
  readonly addIngress: typeof computeSettings.addIngress;
  readonly addMute: typeof notifyEndpoints.addMute;
  readonly addWebhook: typeof notifyWebhooks.addWebhook;
  readonly adminAddRoute: typeof authAdmin.adminAddRoute;
  readonly adminAddUser: typeof authAdmin.adminAddUser;
  readonly adminAudit: typeof authAdmin.adminAudit;
  readonly adminChangeUser: typeof authAdmin.adminChangeUser;
  readonly adminDeleteContainer: typeof computeImages.adminDeleteContainer;
  readonly adminDeleteRoute: typeof authAdmin.adminDeleteRoute;
  readonly adminDisableUser: typeof authAdmin.adminDisableUser;
  readonly adminDrainNode: typeof authAdmin.adminDrainNode;
  readonly adminEnableUser: typeof authAdmin.adminEnableUser;
  readonly adminEndSessions: typeof authAdmin.adminEndSessions;
  readonly adminForgetKeys: typeof authAdmin.adminForgetKeys;
  readonly adminListRoutes: typeof authAdmin.adminListRoutes;
  readonly adminListSessions: typeof authAdmin.adminListSessions;
  readonly adminListUsers: typeof authAdmin.adminListUsers;
  readonly adminNodes: typeof authAdmin.adminNodes;
  readonly adminPasswordLink: typeof authAdmin.adminPasswordLink;
  readonly adminRemoveUser: typeof authAdmin.adminRemoveUser;
  readonly adminSetPassword: typeof authAdmin.adminSetPassword;
  readonly adminStopContainer: typeof computeImages.adminStopContainer;
  readonly adminUndrainNode: typeof authAdmin.adminUndrainNode;
  readonly approveDevice: typeof authDevice.approveDevice;
  readonly beginAddKey: typeof authSecurityKeys.beginAddKey;
  readonly beginDevice: typeof authDevice.beginDevice;
  readonly beginKeyLogin: typeof authSecurityKeys.beginKeyLogin;
  readonly changeIngress: typeof computeSettings.changeIngress;
  readonly changeMapping: typeof networkEndpoints.changeMapping;
  readonly changePassword: typeof authEndpoints.changePassword;
  readonly checkToken: typeof authApiTokens.checkToken;
  readonly clusterEvents: typeof monitorEndpoints.clusterEvents;
  readonly clusterInfo: typeof monitorEndpoints.clusterInfo;
  readonly clusterSocket: typeof monitorEndpoints.clusterSocket;
  readonly computeSocket: typeof computeEndpoints.computeSocket;
  readonly connectDomain: typeof networkEndpoints.connectDomain;
  readonly createContainer: typeof computeEndpoints.createContainer;
  readonly createMapping: typeof networkEndpoints.createMapping;
  readonly createServiceAccount: typeof authApiTokens.createServiceAccount;
  readonly createServiceAccountToken: typeof authApiTokens.createServiceAccountToken;
  readonly createSshKey: typeof computeEndpoints.createSshKey;
  readonly createToken: typeof authApiTokens.createToken;
  readonly deleteContainer: typeof computeEndpoints.deleteContainer;
  readonly deleteIngress: typeof computeSettings.deleteIngress;
  readonly deleteKey: typeof authSecurityKeys.deleteKey;
  readonly deleteMapping: typeof networkEndpoints.deleteMapping;
  readonly deleteServiceAccount: typeof authApiTokens.deleteServiceAccount;
  readonly deleteSshKey: typeof computeEndpoints.deleteSshKey;
  readonly deleteToken: typeof authApiTokens.deleteToken;
  readonly deleteWebhook: typeof notifyWebhooks.deleteWebhook;
  readonly dependencyGraph: typeof monitorEndpoints.dependencyGraph;
  readonly deviceToken: typeof authDevice.deviceToken;
  readonly disconnectDomain: typeof networkEndpoints.disconnectDomain;
  readonly endOtherSessions: typeof authEndpoints.endOtherSessions;
  readonly endSession: typeof authEndpoints.endSession;
  readonly enterIngress: typeof computeSettings.enterIngress;
  readonly execContainer: typeof computeExec.execContainer;
  readonly finishAddKey: typeof authSecurityKeys.finishAddKey;
  readonly finishKeyLogin: typeof authSecurityKeys.finishKeyLogin;
  readonly forgetAnswers: typeof computeSettings.forgetAnswers;
  readonly getContainer: typeof computeEndpoints.getContainer;
  readonly getMail: typeof notifyMail.getMail;
  readonly getMounts: typeof computeSettings.getMounts;
  readonly getServiceAccount: typeof authApiTokens.getServiceAccount;
  readonly getSettings: typeof computeWorkload.getSettings;
  readonly getSsh: typeof computeSettings.getSsh;
  readonly getWebhook: typeof notifyWebhooks.getWebhook;
  readonly healthEvents: typeof monitorEndpoints.healthEvents;
  readonly listActors: typeof authActors.listActors;
  readonly listAddressNames: typeof computeNameListing.listAddressNames;
  readonly listAllContainers: typeof computeImages.listAllContainers;
  readonly listContainers: typeof computeEndpoints.listContainers;
  readonly listImages: typeof computeImages.listImages;
  readonly listIngress: typeof computeSettings.listIngress;
  readonly listKeys: typeof authSecurityKeys.listKeys;
  readonly listMappings: typeof networkEndpoints.listMappings;
  readonly listMutes: typeof notifyEndpoints.listMutes;
  readonly listNotifications: typeof notifyEndpoints.listNotifications;
  readonly listOwnedDomains: typeof networkEndpoints.listOwnedDomains;
  readonly listRevisions: typeof computeRevisions.listRevisions;
  readonly listServiceAccountTokens: typeof authApiTokens.listServiceAccountTokens;
  readonly listServiceAccounts: typeof authApiTokens.listServiceAccounts;
  readonly listSessions: typeof authEndpoints.listSessions;
  readonly listSshKeys: typeof computeEndpoints.listSshKeys;
  readonly listTokens: typeof authApiTokens.listTokens;
  readonly listWebhookDeliveries: typeof notifyWebhooks.listWebhookDeliveries;
  readonly listWebhooks: typeof notifyWebhooks.listWebhooks;
  readonly login: typeof authEndpoints.login;
  readonly logout: typeof authEndpoints.logout;
  readonly logs: typeof computeLogs.logs;
  readonly markAllRead: typeof notifyEndpoints.markAllRead;
  readonly markRead: typeof notifyEndpoints.markRead;
  readonly metricsHistory: typeof monitorEndpoints.metricsHistory;
  readonly nodeMetrics: typeof monitorEndpoints.nodeMetrics;
  readonly notificationSocket: typeof notifyEndpoints.notificationSocket;
  readonly ownRegistryToken: typeof authRegistry.ownRegistryToken;
  readonly podMetrics: typeof monitorEndpoints.podMetrics;
  readonly podMetricsByNamespace: typeof monitorEndpoints.podMetricsByNamespace;
  readonly readFiles: typeof computeFiles.readFiles;
  readonly readLogs: typeof computeLogs.readLogs;
  readonly refreshDomain: typeof networkEndpoints.refreshDomain;
  readonly registryToken: typeof authRegistry.registryToken;
  readonly registryUsage: typeof authRegistry.registryUsage;
  readonly removeFiles: typeof computeFiles.removeFiles;
  readonly removeMute: typeof notifyEndpoints.removeMute;
  readonly renameKey: typeof authSecurityKeys.renameKey;
  readonly renewSession: typeof authEndpoints.renewSession;
  readonly rotateWebhook: typeof notifyWebhooks.rotateWebhook;
  readonly session: typeof authEndpoints.session;
  readonly setMail: typeof notifyMail.setMail;
  readonly setMounts: typeof computeSettings.setMounts;
  readonly setPullPolicy: typeof computeSettings.setPullPolicy;
  readonly setServiceAccountScopes: typeof authApiTokens.setServiceAccountScopes;
  readonly setSsh: typeof computeSettings.setSsh;
  readonly setSshKeyLogin: typeof computeEndpoints.setSshKeyLogin;
  readonly showActor: typeof authActors.showActor;
  readonly showPasswordLink: typeof authEndpoints.showPasswordLink;
  readonly showPlatform: typeof authPlatform.showPlatform;
  readonly showPlatformApi: typeof authPlatform.showPlatformApi;
  readonly showPlatformFacts: typeof authPlatform.showPlatformFacts;
  readonly startContainer: typeof computeEndpoints.startContainer;
  readonly stopContainer: typeof computeEndpoints.stopContainer;
  readonly terminal: typeof computeEndpoints.terminal;
  readonly testWebhook: typeof notifyWebhooks.testWebhook;
  readonly unreadCount: typeof notifyEndpoints.unreadCount;
  readonly updateContainer: typeof computeSettings.updateContainer;
  readonly updateProfile: typeof authEndpoints.updateProfile;
  readonly updateWebhook: typeof notifyWebhooks.updateWebhook;
  readonly usePasswordLink: typeof authEndpoints.usePasswordLink;
  readonly useTools: typeof networkTools.useTools;
  readonly verifyMail: typeof notifyMail.verifyMail;
  readonly verifyMapping: typeof networkEndpoints.verifyMapping;
  readonly writeFiles: typeof computeFiles.writeFiles;
}
